// Judges a message or a request while it is typed, and shows what would leave. Nothing is sent unless the reader asks.

import { h, type JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Button, Field } from '../parts/controls.ts';
import { Confirm, useDialog } from '../parts/dialog.ts';
import { box, el, State } from '../parts/element.ts';
import { empty, fault, openTab, Progress, pageHead, panel, Tabs } from '../parts/surfaces.ts';
import { reasonsPanel, VerdictTable } from '../parts/verdicts.ts';
import { type ApiError, ask, useLoaded } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { judgeHere, type Rehearsal } from '../state/policy.ts';
import { accountOnlyPath, mayEdit } from '../state/session.ts';
import type { MessageFault } from '../state/shapes.ts';
import { writeCounted, writeOctets } from '../text/amounts.ts';
import { readAttempt, sampleMessage, sampleRequest } from '../text/attempt.ts';

/** A fault of the answer as a reason: its code stands before its text, its header in the pointer. */
function reasonOf({ code, message, source }: ApiError): MessageFault {
  const [, token, text] = /^(E_[A-Z_]+): ([^]*)$/.exec(message) ?? [];
  const field = /^\/headers\/([^/]+)$/
    .exec(source?.pointer ?? '')?.[1]
    ?.replaceAll('~1', '/')
    .replaceAll('~0', '~');
  return { code: token ?? String(code), message: text ?? message, ...(field === undefined ? {} : { field }) };
}

const mostOctets = 1_048_576;
const tooLarge = `at most ${writeOctets(mostOctets)} can be tried here. Use postern check for larger ones.`;
const pauseMs = { gateway: 400, here: 40 };

const tabs = [
  { key: 'message', label: 'A message' },
  { key: 'request', label: 'A request body' },
] as const;

/** Gives a value once it has stayed the same for so many milliseconds. */
function useCalm<Value>(value: Value, ms: number): Value {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return calm;
}

/** Judges what was typed, here where that can be; the gateway tells how an accepted message leaves, and all that cannot be judged here. */
function useVerdict(typed: string) {
  const soon = useCalm(typed, pauseMs.here);
  const calm = useCalm(typed, pauseMs.gateway);
  const attempt = useMemo(() => readAttempt(soon), [soon]);
  const body = useMemo(() => (attempt.ok ? JSON.stringify(attempt.judge) : undefined), [attempt]);
  // Null where the gateway has to be asked.
  const { value: here } = useLoaded(body, async (json) => (await judgeHere(json)) ?? null);
  const isAsked = calm === soon && (here === null || here?.valid === true);
  const { value, problem, isLoading } = useLoaded(isAsked ? body : undefined, async (json, signal) => {
    const path = accountOnlyPath('/email/sending/rehearse');
    return (await ask<Rehearsal>(path, { method: 'POST', body: JSON.parse(json), signal })).result;
  });
  // A gateway that is not reached takes nothing away from what is known here.
  const isOffline = problem?.status === 0 && here !== null && here !== undefined;
  return {
    attempt,
    value: value ?? here ?? undefined,
    problem: isOffline ? undefined : problem,
    isOffline,
    isLoading: here === undefined || isLoading,
  };
}

function DropField(props: Parameters<typeof Field>[0]): JSX.Element {
  const [isOver, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const read = (file: File | undefined): void => {
    if (file && file.size <= mostOctets) file.text().then(props.onInput).catch(reportError);
    else if (file) tell(`${file.name} has ${writeOctets(file.size)}; ${tooLarge}`, 'failed');
  };
  return el('div', {
    class: isOver ? 'drop-zone over' : 'drop-zone',
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      read(event.dataTransfer?.files[0]);
    },
  })(
    h(Field, { ...props, rows: 18 }),
    h('input', {
      ...{ ref: picker, type: 'file', class: 'unseen', tabIndex: -1, accept: '.eml,.json,.txt,message/rfc822' },
      'aria-label': 'File to try',
      onChange: () => read(picker.current?.files?.[0]),
    }),
    el('p.actions.drop-actions')(
      el(Button, { onPress: () => picker.current?.click() })('Choose a file'),
      props.value === '' ? null : el(Button, { onPress: () => props.onInput('') })('Empty the field'),
    ),
  );
}

function Verdict({ value }: { readonly value: Rehearsal }): JSX.Element {
  const { valid, errors, verdicts, sent } = value;
  const reasons = errors.map(reasonOf);
  return el('div')(
    el('p.verdict-line', { role: 'status' })(
      valid
        ? h(State, { state: 'ok', words: { word: 'Accepted', tone: 'good', icon: 'check' } })
        : h(State, { state: 'refused' }),
      valid ? 'It would be accepted and signed.' : `It would be refused: ${writeCounted(reasons.length, 'reason')}.`,
    ),
    reasonsPanel(reasons, 'Why it would be refused'),
    verdicts.length === 0 ? null : panel('Each header')(h(VerdictTable, { verdicts })),
    sent ? panel('As it would leave')(box(sent.text)) : null,
  );
}

const words = {
  message: {
    ...{ path: 'send_raw', label: 'Message', sample: sampleMessage },
    hint: 'Its headers, an empty line, its body; as a program would send it.',
  },
  request: {
    ...{ path: 'send', label: 'Request body', sample: sampleRequest },
    hint: 'JSON, as of POST .../email/sending/send.',
  },
} as const;

function Judged({ attempt, value, problem, isOffline, isLoading }: ReturnType<typeof useVerdict>): JSX.Element {
  const nothingYet = 'The verdict on each header stands here, with the message as it would leave.';
  return el('section', { 'aria-label': 'Verdict' })(
    !attempt.ok &&
      (attempt.fault === undefined ? empty('Nothing to judge yet', 'try')(nothingYet) : el('p.fault')(attempt.fault)),
    problem && fault(problem),
    isOffline && el('p.soft')('The gateway does not answer. This is judged in the browser.'),
    attempt.ok && isLoading && !value && h(Progress, { what: 'Judging' }),
    value && h(Verdict, { value }),
  );
}

function sendConfirm(onConfirm: () => Promise<void>): JSX.Element {
  return el(Confirm, { title: 'Send this message?', action: 'Send 1 message', onConfirm })(
    el('p')('It is handed in as a program would hand it in, and goes to its recipients.'),
  );
}

/** The page. */
export function Page(): JSX.Element {
  const form = openTab(tabs) === 'request' ? 'request' : 'message';
  const { path, label, sample, hint } = words[form];
  const [texts, setTexts] = useState({ message: '', request: '' });
  const { show, dialog } = useDialog();
  const text = texts[form];
  const change = (next: string): void => setTexts({ ...texts, [form]: next });
  const judged = useVerdict(JSON.stringify({ form, text }));
  const { attempt, value } = judged;
  const body = attempt.ok ? attempt.send : undefined;
  const send = async (): Promise<void> => {
    const url = accountOnlyPath(`/email/sending/${path}`);
    const { result } = await ask<{ readonly message_id: string }>(url, { method: 'POST', body });
    tell(`It is accepted as ${result.message_id}.`);
  };
  const disabled = value?.valid !== true || body === undefined;
  const onPress = (): void => show(sendConfirm(send));
  return el('div')(
    pageHead(
      'Try it',
      'Paste or drop a message, or the body of a request. It is judged while you type; nothing is sent.',
      mayEdit.value && el(Button, { kind: 'main', icon: 'messages', disabled, onPress })('Send it'),
    ),
    h(Tabs, { tabs, label: 'What to try' }),
    el('div.try')(
      el('div.try-form')(
        h(DropField, { label, value: text, onInput: change, hint }),
        text === '' && el('p')(el(Button, { icon: 'try', onPress: () => change(sample) })('Fill in an example')),
      ),
      h(Judged, judged),
    ),
    dialog,
  );
}
