// A dialog: over the page, with the focus inside until it is closed, and back where it was afterwards. The browser's own
// <dialog> does all of that.

import { type ComponentChildren, h, type JSX } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isSignedOut, type Problem, useSubmit } from '../state/api.ts';
import { Button, CopyButton } from './controls.ts';
import { el } from './element.ts';
import { fault } from './surfaces.ts';

/** Opens a dialog while it is drawn. @returns its element, and whether it has gone */
function useModal() {
  const box = useRef<HTMLDialogElement>(null);
  const isOut = isSignedOut.value;
  const isGone = useRef(false);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    return () => {
      isGone.current = true;
      // While it is open, nothing behind it takes the focus.
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // While a session has ended, whoever signs in again needs the page; the dialog comes back with what was typed.
  useLayoutEffect(() => {
    if (isOut) box.current?.close();
    else if (box.current?.open === false) {
      box.current.showModal();
      // The browser would take the first button.
      const first = box.current.querySelector('[data-autofocus]');
      if (first instanceof HTMLElement) first.focus();
    }
  }, [isOut]);
  return { box, isGone };
}

/** A dialog that is open for as long as it is drawn. */
export function Dialog(props: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { box, isGone } = useModal();
  const id = useId();
  return el('dialog', {
    ...{ ref: box, class: 'dialog', 'aria-labelledby': id },
    onCancel: (event: Event) => {
      event.preventDefault();
      props.onClose();
    },
    onClose: () => {
      if (!isSignedOut.value && !isGone.current) props.onClose();
    },
    onClick: (event: MouseEvent) => {
      if (event.target === box.current) props.onClose();
    },
  })(
    el('div.dialog-body')(
      el('div.dialog-head')(
        el('h2', { id })(props.title),
        h(Button, { kind: 'bare', icon: 'close', label: 'Close', onPress: props.onClose }),
      ),
      props.children,
    ),
  );
}

type Draw = (onClose: () => void) => JSX.Element;

/** Gives what shows a dialog until it closes, in place of one that is open, and what stands for it in the page. */
export function useDialog() {
  const [open, setOpen] = useState<{ readonly draw: Draw }>();
  // One that closes late takes none away that was shown in its place.
  const close = (): void => setOpen((now) => (now === open ? undefined : now));
  return { show: (draw: Draw): void => setOpen({ draw }), dialog: open?.draw(close) };
}

/** A token or a secret that was just made, which is shown this once. @param children what it is for */
export function ShownOnce(props: {
  readonly title: string;
  readonly text: string;
  /** What its button copies: `the token`. */
  readonly what: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { title, text, what, onClose, children } = props;
  return el(Dialog, { title, onClose })(
    el('div.dialog-text')(
      el('p')(children),
      el('div.secret')(el('code')(text), h(CopyButton, { text, label: `Copy ${what}` })),
    ),
    el('div.dialog-actions')(el(Button, { kind: 'main', onPress: onClose })('I have copied it')),
  );
}

/** Why what was sent was refused. That the session had ended is over once the dialog is seen again. */
function told(problem: Problem | undefined): JSX.Element | null {
  return problem && problem.status !== 401 ? fault(problem) : null;
}

/** What `Confirm` takes. */
export interface ConfirmProps {
  readonly title: string;
  readonly children?: ComponentChildren;
  /** What the button says: the deed itself, with its number. */
  readonly action: string;
  readonly danger?: boolean;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something is done that cannot be undone, and does it. */
export function Confirm(props: ConfirmProps): JSX.Element {
  const [problem, setProblem] = useState<Problem>();
  const confirm = async (): Promise<void> => {
    setProblem(undefined);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return el(Dialog, { title: props.title, onClose: props.onClose })(
    el('div.dialog-text')(props.children),
    told(problem),
    el('div.dialog-actions')(
      el(Button, { onPress: props.onClose })('Cancel'),
      el(Button, { kind: props.danger === true ? 'danger' : 'main', onPress: confirm })(props.action),
    ),
  );
}

/** A form within a dialog: fills in, sends, closes; tells what was refused. */
export function FormDialog(props: {
  readonly title: string;
  readonly action: string;
  readonly onSubmit: () => Promise<void>;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { problem, isBusy, submit } = useSubmit(props.onSubmit);
  return el(Dialog, { title: props.title, onClose: props.onClose })(
    el('form', { onSubmit: submit })(
      props.children,
      told(problem),
      el('div.dialog-actions')(
        el(Button, { onPress: props.onClose })('Cancel'),
        el(Button, { kind: 'main', type: 'submit', isBusy })(props.action),
      ),
    ),
  );
}
