// A dialog over the page, by the browser's own <dialog>, which keeps the focus inside and puts it back.

import { type ComponentChildren, createContext, Fragment, h, type JSX } from 'preact';
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isSignedOut, type Problem, useSubmit } from '../state/api.ts';
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

const Closing = createContext((): void => undefined);

/** What closes the dialog that a component is in. */
export function useClose(): () => void {
  return useContext(Closing);
}

/** A dialog that is open for as long as it is drawn. */
export function Dialog(props: { readonly title: string; readonly children?: ComponentChildren }): JSX.Element {
  const { box, isGone } = useModal();
  const close = useClose();
  const id = useId();
  return el('dialog', {
    ...{ ref: box, class: 'dialog', 'aria-labelledby': id },
    onCancel: (event: Event) => {
      event.preventDefault();
      close();
    },
    onClose: () => {
      if (!isSignedOut.value && !isGone.current) close();
    },
    onClick: (event: MouseEvent) => {
      if (event.target === box.current) close();
    },
  })(
    el('div.dialog-body')(
      el('div.dialog-head')(
        el('h2', { id })(props.title),
        h(Button, { kind: 'bare', icon: 'close', label: 'Close', onPress: close }),
      ),
      props.children,
    ),
  );
}

/** Gives what shows a dialog until it closes, in place of one that is open, and what stands for it in the page. */
export function useDialog() {
  const [open, show] = useState<JSX.Element>();
  // One that closes late takes none away that was shown in its place.
  const value = (): void => show((now) => (now === open ? undefined : now));
  return { show: (dialog: JSX.Element): void => show(dialog), dialog: open && el(Closing.Provider, { value })(open) };
}

/** A token or a secret that was just made, which is shown this once. @param children what it is for */
export function ShownOnce(props: {
  readonly title: string;
  readonly text: string;
  /** What its button copies: `the token`. */
  readonly what: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { title, text, what, children } = props;
  return el(Dialog, { title })(
    el('div.dialog-text')(
      el('p')(children),
      el('div.secret')(el('code')(text), h(CopyButton, { text, label: `Copy ${what}` })),
    ),
    el('div.dialog-actions')(el(Button, { kind: 'main', onPress: useClose() })('I have copied it')),
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
}

/** Asks before something is done that cannot be undone, and does it. */
export function Confirm({ children, onConfirm, ...about }: ConfirmProps): JSX.Element {
  return el(FormDialog, { ...about, onSubmit: onConfirm, isText: true })(el('div.dialog-text')(children));
}

/** A form within a dialog: fills in, sends, closes; tells what was refused. */
export function FormDialog(
  props: Omit<ConfirmProps, 'onConfirm'> & {
    readonly onSubmit: () => Promise<void>;
    /** It stays open, and shows what came of it. */
    readonly stays?: boolean;
    /** It has words in place of fields, which have room around them. */
    readonly isText?: boolean;
  },
): JSX.Element {
  const close = useClose();
  const { problem, isBusy, submit } = useSubmit(async () => {
    await props.onSubmit();
    if (props.stays !== true) close();
  });
  const around = props.isText === true ? el('div') : el(Fragment);
  return el(Dialog, { title: props.title })(
    el('form', { onSubmit: submit })(
      around(
        props.children,
        told(problem),
        el('div.dialog-actions')(
          el(Button, { onPress: close })('Cancel'),
          el(Button, { kind: props.danger === true ? 'danger' : 'main', type: 'submit', isBusy })(props.action),
        ),
      ),
    ),
  );
}
