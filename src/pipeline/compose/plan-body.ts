// Decides what is done with a body: leaves that are not 7-bit or have lines over 998 octets are re-encoded (D11, D20; RFC 2045 §6).

import { parseMediaType } from '../../mail/header/content-type.ts';
import { maximumLineLength } from '../../mail/header/fold.ts';
import {
  type BodyFacts,
  endWithCrlf,
  repairLineEndings,
  scanBody,
  type YieldToEventLoop,
} from '../../mail/mime/body-scan.ts';
import { type TopLevel, walkMime } from '../../mail/mime/mime-walk.ts';
import type { Violation } from '../policy/rejections.ts';
import type { Submission, Via } from '../policy/submission.ts';
import type { BodyPlanResult } from './compose.ts';
import type * as Composer from './compose-parts.ts';
import type { WriteLongField } from './field-text.ts';
import { repairParts } from './repair-parts.ts';

/** How other work gets its turns; without these functions the body is planned without a pause. */
export interface PlanOptions {
  readonly yieldToEventLoop?: YieldToEventLoop | undefined;
  readonly writeLong?: WriteLongField | undefined;
}

/**
 * Plans the body of a submission. It does not depend on the verdict on the headers, so both are reported together (D2).
 * @param turns lets other work run while a large body is planned
 * @returns the plan, or violations: NUL, bare CR or LF where they are not to be fixed, 8-bit data inside
 *   multipart/signed, a MIME structure that cannot be re-encoded, an attachment that cannot be attached
 */
export async function planBody(submission: Submission, turns: PlanOptions = {}): Promise<BodyPlanResult> {
  const { body, via, fields } = submission;
  const { yieldToEventLoop } = turns;
  if (body.kind === 'parts') return planParts(body, { via, ...turns });
  const facts = await scanBody(body.bytes, yieldToEventLoop);
  const violations = octetViolations(facts, via.lineEndings);
  if (violations.length > 0) return { ok: false, violations };
  const lines = facts.bareCr || facts.bareLf ? await repairLineEndings(body.bytes, yieldToEventLoop) : body.bytes;
  return planOctets(endWithCrlf(lines), { top: topLevel(fields), facts, via, ...turns });
}

interface PlanContext extends PlanOptions {
  readonly via: Via;
}

/** What composes parts, loaded with the first of them: it is large, and a gateway that takes mail by SMTP alone never asks for it. */
let composer: typeof Composer | undefined;

/** Plans a body of parts (D21): it comes out in 7-bit form, so what is clean is not looked at again. */
async function planParts(parts: Composer.BodyParts, context: PlanContext): Promise<BodyPlanResult> {
  const { via, yieldToEventLoop } = context;
  composer ??= await import('./compose-parts.ts');
  const { attachmentViolations, composeParts } = composer;
  const violations = attachmentViolations(parts.attachments);
  if (violations.length > 0) return { ok: false, violations };
  const { body, top, isClean } = await composeParts(parts, via.sessionId, yieldToEventLoop);
  if (isClean) return { ok: true, plan: { body, ...top } };
  const facts = await scanBody(body, yieldToEventLoop);
  const lines = facts.bareCr || facts.bareLf ? await repairLineEndings(body, yieldToEventLoop) : body;
  const result = await planOctets(lines, { ...context, top, facts });
  return result.ok ? { ok: true, plan: { ...top, ...result.plan } } : result;
}

/** Plans a body of given octets: clean octets stay, others are repaired. */
async function planOctets(
  bytes: Buffer,
  context: PlanContext & { readonly top: TopLevel; readonly facts: BodyFacts },
): Promise<BodyPlanResult> {
  const { top, facts, via, yieldToEventLoop, writeLong } = context;
  const clean = !facts.eightBit && facts.longestLine <= maximumLineLength;
  if (clean && !isStructured(top) && !declaresMore(top)) return { ok: true, plan: { body: bytes } };
  const tree = await walkMime(bytes, top, yieldToEventLoop);
  return repairParts(bytes, { tree, top, legacyCharset: via.legacyCharset, clean, yieldToEventLoop, writeLong });
}

function octetViolations(facts: BodyFacts, lineEndings: 'fix' | 'reject'): readonly Violation[] {
  const violations: Violation[] = [];
  if (facts.nul) {
    violations.push({
      code: 'E_VALIDATION_ERROR',
      message: 'The body holds a NUL octet: encode binary data as base64',
    });
  }
  if (lineEndings === 'reject' && (facts.bareCr || facts.bareLf)) {
    const what = [...(facts.bareCr ? ['CR'] : []), ...(facts.bareLf ? ['LF'] : [])].join(' and a bare ');
    violations.push({ code: 'E_VALIDATION_ERROR', message: `The body holds a bare ${what}: lines end with CRLF` });
  }
  return violations;
}

/** The first Content-Type and Content-Transfer-Encoding of the header section; the policy refuses repeated ones (D5). */
function topLevel(fields: Submission['fields']): TopLevel {
  let contentType: string | undefined;
  let transferEncoding: string | undefined;
  for (const { name, rawBytes, fault } of fields) {
    if (fault !== undefined || name.length > 25) continue;
    const lowerName = name.toLowerCase();
    if (lowerName === 'content-type') contentType ??= rawBytes.toString('latin1');
    else if (lowerName === 'content-transfer-encoding') transferEncoding ??= rawBytes.toString('latin1');
  }
  return {
    ...(contentType === undefined ? {} : { contentType }),
    ...(transferEncoding === undefined ? {} : { transferEncoding }),
  };
}

/** Tells whether a body can have parts: a clean body without parts need not be walked. */
function isStructured({ contentType }: TopLevel): boolean {
  if (contentType === undefined) return false;
  const { type } = parseMediaType(contentType);
  return type === 'multipart' || type === 'message';
}

function declaresMore({ transferEncoding }: TopLevel): boolean {
  return transferEncoding !== undefined && /8-?bit|binary/i.test(transferEncoding);
}
