// What readers press and fill in: buttons, fields, choices.

import { type ComponentChildren, h, type JSX, type TargetedEvent } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useSubmit } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { el, Icon, type IconName } from './element.ts';

interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly onPress?: () => void | Promise<void>;
  readonly kind?: 'plain' | 'main' | 'danger' | 'bare';
  readonly icon?: IconName;
  readonly type?: 'button' | 'submit';
  readonly disabled?: boolean;
  /** Work is under way: the button says so and takes no further press. */
  readonly isBusy?: boolean;
  readonly label?: string;
  readonly pressed?: boolean;
}

/** A button. While the promise of `onPress` is pending it takes no other press. */
export function Button(props: ButtonProps): JSX.Element {
  const { children, onPress, kind = 'plain', icon, type = 'button', disabled = false, isBusy = false, label } = props;
  const { problem, isBusy: isWorking, submit } = useSubmit(() => onPress?.());
  const busy = isBusy || isWorking;
  useEffect(() => {
    if (problem) tell(problem.message, 'failed');
  }, [problem]);
  return el('button', {
    ...{ type, class: `button ${kind}`, disabled, onClick: busy || !onPress ? undefined : submit },
    'aria-busy': busy ? 'true' : undefined,
    'aria-label': label,
    title: label,
    'aria-pressed': props.pressed === undefined ? undefined : props.pressed,
  })(busy ? h('span', { class: 'spinner', 'aria-hidden': 'true' }) : icon && h(Icon, { name: icon }), children);
}

/** A button that copies text, and says that it has. */
export function CopyButton({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Browsers give no clipboard to pages without HTTPS, except on this machine.
      tell('The browser does not let this page copy. Select the text and copy it yourself.', 'failed');
    }
  };
  return el(Button, { icon: isCopied ? 'check' : 'copy', onPress: copy })(
    el('span', { 'aria-live': 'polite' })(isCopied ? 'Copied' : label),
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly hint?: string;
  readonly type?: 'text' | 'search' | 'password' | 'url' | 'email' | 'datetime-local';
  readonly required?: boolean;
  readonly placeholder?: string | undefined;
  readonly autocomplete?: string;
  readonly rows?: number;
  readonly autofocus?: boolean;
}

/** A field with its label and a hint. */
export function Field(props: FieldProps): JSX.Element {
  const { label, value, onInput, hint, type = 'text', required = false, rows } = props;
  const id = useId();
  const box = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (props.autofocus === true) box.current?.focus();
  }, []);
  return el('div.field')(
    el('label', { htmlFor: id })(label),
    h(rows === undefined ? 'input' : 'textarea', {
      ...{ id, ref: box, value, required, spellcheck: false, autocapitalize: 'off' },
      ...(rows === undefined ? { type } : { rows }),
      // A dialog that opens puts the focus there.
      'data-autofocus': props.autofocus === true ? '' : undefined,
      placeholder: props.placeholder,
      autocomplete: props.autocomplete ?? 'off',
      'aria-describedby': hint ? `${id}-hint` : undefined,
      onInput: ({ currentTarget }: TargetedEvent<HTMLInputElement | HTMLTextAreaElement>) =>
        onInput(currentTarget.value),
    }),
    hint ? el('p.hint', { id: `${id}-hint` })(hint) : null,
  );
}

interface Choice {
  readonly value: string;
  readonly label: string;
}

/** A choice of one, as a list that opens. */
export function Select(props: {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly Choice[];
  readonly onChoose: (value: string) => void;
}): JSX.Element {
  const { label, value, choices, onChoose } = props;
  const id = useId();
  return el('div.field')(
    el('label', { htmlFor: id })(label),
    el('select', {
      id,
      value,
      onChange: ({ currentTarget }: TargetedEvent<HTMLSelectElement>) => onChoose(currentTarget.value),
    })(
      choices.map((choice) =>
        el('option', { key: choice.value, value: choice.value, selected: choice.value === value })(choice.label),
      ),
    ),
  );
}

/** Something that is on or off. */
export function Checkbox(props: {
  readonly label: ComponentChildren;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  /** The label is for screen readers alone. */
  readonly hidden?: boolean;
  readonly mixed?: boolean;
}): JSX.Element {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current) box.current.indeterminate = props.mixed ?? false;
  });
  return el('label.check')(
    h('input', {
      ...{ type: 'checkbox', ref: box, checked: props.checked },
      onChange: ({ currentTarget }: TargetedEvent<HTMLInputElement>) => props.onChange(currentTarget.checked),
    }),
    el('span', { class: props.hidden === true ? 'unseen' : undefined })(props.label),
  );
}

/** A choice of one of few that all are seen. @param text what the button shows, where that is not its label */
export function Switch<Key extends string>(props: {
  readonly label: string;
  readonly choices: readonly { readonly key: Key; readonly label: string; readonly text?: ComponentChildren }[];
  readonly chosen: Key;
  readonly onChoose: (key: Key) => void;
}): JSX.Element {
  return el('div.segments', { role: 'group', 'aria-label': props.label })(
    props.choices.map(({ key, label, text = label }) => {
      const named = text === label ? {} : { title: label, 'aria-label': label };
      const press = { 'aria-pressed': props.chosen === key, onClick: () => props.onChoose(key) };
      return el('button', { key, type: 'button', ...named, ...press })(text);
    }),
  );
}

/** Choices of which any number can be on. @param choices the word of each, and what is shown */
export function Checks(props: {
  readonly legend: string;
  readonly choices: readonly (readonly [word: string, shown: ComponentChildren])[];
  readonly chosen: readonly string[];
  readonly onChoose: (chosen: readonly string[]) => void;
}): JSX.Element {
  const { legend, choices, chosen, onChoose } = props;
  const toggle = (word: string, isOn: boolean): void =>
    onChoose(isOn ? [...chosen, word] : chosen.filter((one) => one !== word));
  return el('fieldset')(
    el('legend')(legend),
    el('div.checks')(
      choices.map(([word, label]) =>
        h(Checkbox, { key: word, label, checked: chosen.includes(word), onChange: (isOn) => toggle(word, isOn) }),
      ),
    ),
  );
}
