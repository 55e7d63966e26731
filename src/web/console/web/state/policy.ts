// The header policy in the browser: the modules of the gateway that judge, loaded when somebody first tries a message.

import type { ApiError } from './api.ts';
import { accountOnlyPath, pathOfAccount, session } from './session.ts';
import type { FieldVerdict } from './shapes.ts';

/** What would become of a message: as the gateway answers, or as it is judged here. */
export interface Rehearsal {
  readonly valid: boolean;
  readonly errors: readonly ApiError[];
  readonly verdicts: readonly FieldVerdict[];
  /** The message as it would leave; null where it is refused. Judged here, it is the header section without signatures. */
  readonly sent: { readonly text: string; readonly is_whole: boolean } | null;
}

interface Violation {
  readonly code: string;
  readonly message: string;
  readonly pointer?: string;
  readonly http: { readonly code: number };
}

interface Judgement {
  readonly verdict: string;
  readonly violations: readonly Violation[];
  readonly fields: readonly {
    readonly name: string;
    readonly value: string;
    readonly verdict: string;
    readonly rule: string;
    readonly reference?: string;
    readonly violation?: Violation;
  }[];
  readonly wouldLeave: string | null;
}

interface JudgeModule {
  readonly judge: (input: { readonly json: string }, options: object) => Promise<Judgement>;
  /** What becomes of a field, in the words of the API, by the word of the policy. */
  readonly shownVerdicts: Readonly<Record<string, FieldVerdict['verdict']>>;
}

/** Beside the pages, below the same digest. */
const place: string = '../../policy/judge.js';
let loading: Promise<JudgeModule | undefined> | undefined;

/** Loads the modules; undefined where the gateway has none, or does not answer. */
async function load(): Promise<JudgeModule | undefined> {
  try {
    const module: JudgeModule = await import(place);
    return module;
  } catch {
    // The gateway judges then. Whoever opens the page again tries again.
    loading = undefined;
    return undefined;
  }
}

function errorOf({ code, message, pointer, http }: Violation): ApiError {
  const source = pointer === undefined ? {} : { source: { pointer } };
  return { code: http.code, message: `${code}: ${message}`, ...source };
}

function rehearsalOf({ verdict, violations, fields, wouldLeave }: Judgement, shown: JudgeModule['shownVerdicts']) {
  return {
    valid: verdict === 'accepted',
    errors: violations.map(errorOf),
    verdicts: fields.map(({ name, value, rule, reference, violation, verdict: of }) => ({
      ...{ name: name.slice(0, 100), value: value.slice(0, 500), verdict: shown[of] ?? 'kept', rule },
      ...(reference === undefined ? {} : { reference }),
      ...(violation ? { code: violation.code, message: violation.message } : {}),
    })),
    sent: wouldLeave === null ? null : { text: wouldLeave, is_whole: false },
  };
}

/** A message alone is judged with an envelope that lets From decide, as the gateway does. */
function withEnvelope(body: object, domain: string | undefined): object {
  if (!('raw' in body)) return body;
  const from = domain === undefined ? '' : `sender@${domain}`;
  return { from, recipients: ['recipient@example.net'], mime_message: body.raw };
}

/** Judges what `rehearse` takes without asking the gateway. @returns undefined where that cannot be, as of another account */
export async function judgeHere(body: string): Promise<Rehearsal | undefined> {
  const { judged_as: settings, account } = session.value ?? {};
  if (!settings || account === undefined || accountOnlyPath('') !== pathOfAccount(account.name, '')) return undefined;
  loading ??= load();
  const policy = await loading;
  if (!policy) return undefined;
  const value: unknown = JSON.parse(body);
  const [domain] = settings.sendingDomains;
  const isObject = typeof value === 'object' && value !== null;
  const json = isObject ? JSON.stringify(withEnvelope(value, domain?.name)) : body;
  return rehearsalOf(await policy.judge({ json }, settings), policy.shownVerdicts);
}
