// Connects the endpoints under /client/v4 with what they ask. Loaded with the first request to the API.

import { rehearseEndpoint } from '../../doors/rest/rehearse.ts';
import { type RestDoorParts, restDoor } from '../../doors/rest/rest-door.ts';
import type { KeptMessage } from '../../pipeline/report/rehearse.ts';
import { publicRecord } from '../../pipeline/sign/dkim-key.ts';
import type { SigningKey } from '../../pipeline/sign/sign.ts';
import { build, examine, noteOfRefused, type Submission } from '../../pipeline/submit.ts';
import { systemDns } from '../../web/admin/check-records.ts';
import { domainEndpoints } from '../../web/admin/domain-endpoints.ts';
import { eventEndpoints } from '../../web/admin/events/event-endpoints.ts';
import { messageEndpoints } from '../../web/admin/events/message-endpoints.ts';
import { contentEndpoints } from '../../web/admin/journal/content-endpoints.ts';
import { journalEndpoints } from '../../web/admin/journal/journal-endpoints.ts';
import { liveEndpoints } from '../../web/admin/journal/live-endpoint.ts';
import { refusalEndpoints } from '../../web/admin/journal/refusal-endpoints.ts';
import { resendEndpoint } from '../../web/admin/journal/resend-endpoint.ts';
import { type WouldPassParts, wouldPassEndpoint } from '../../web/admin/journal/would-pass-endpoint.ts';
import { suppressionEndpoints } from '../../web/admin/suppression-endpoints.ts';
import { tokenEndpoints } from '../../web/admin/token-endpoints.ts';
import { webhookEndpoints } from '../../web/admin/webhooks/webhook-endpoints.ts';
import type { V4Plugin } from '../../web/http/v4-app.ts';
import type { ConfigSource } from '../config/config.ts';
import { openConfigProcess } from '../config/config-process.ts';
import { entryLinkFor, keptContent, recordFacts } from './build-parts.ts';
import { consoleEndpoints } from './console/console-endpoints.ts';
import { fileChanges } from './console/file-changes.ts';
import type { HttpParts } from './http.ts';

function sendingEndpoints({ settings, mail, sources, clock }: HttpParts): V4Plugin[] {
  const { submit, sending, outcomes, suppressed } = mail;
  const kept = keptContent(settings.config.journal);
  const parts = {
    limits: settings.config.rest.limits,
    submit,
    examine: (submission: Submission) => examine(submission, sending()),
    preview: (submission: Submission) => build(submission, sending()),
    keys: mail.spool,
    outcomes,
    suppressed,
    entryLink: entryLinkFor(settings.config, clock),
    headersUrl: () => {
      const origin = settings.config.console.publicUrl ?? sources.docsBaseUrl();
      return origin === undefined ? undefined : `${origin}/headers`;
    },
    noted: (submission, explanation) => kept && noteOfRefused(submission, explanation, { kept, clock }),
    onRefused: mail.spool.events.refuse,
  } satisfies RestDoorParts;
  return [restDoor(parts), rehearseEndpoint(parts)];
}

/** The DNS record of a key: its name and its text. */
function recordOf(key: SigningKey): readonly [string, string] {
  const { name, value } = publicRecord(key);
  return [name.toLowerCase(), value];
}

function otherReader(place: ConfigSource): WouldPassParts['readOther'] {
  return async (text) => {
    const program = new URL('./judging-process.ts', import.meta.url);
    const { ask, close } = await openConfigProcess<KeptMessage, readonly string[]>(program, place, text);
    return { judge: ask, close };
  };
}

/** Makes the endpoints under some settings. */
export async function endpoints(parts: HttpParts): Promise<readonly V4Plugin[]> {
  const { accounts, tokens, mail, webhooks, edge, proxy, clock, log } = parts;
  const { config, keys } = parts.settings;
  const { enabled: isOn } = config.journal;
  const { place } = parts.sources;
  const { journal } = mail;
  const { events } = mail.spool;
  const account = (name: string) => accounts.find(name);
  return [
    ...sendingEndpoints(parts),
    suppressionEndpoints({ suppressions: mail.suppressions, clock, log }),
    tokenEndpoints({ store: tokens, clock, log }),
    eventEndpoints({ events }),
    messageEndpoints({ events }),
    refusalEndpoints({ events, account, fileChanges: place && fileChanges(place, config.file), clock, isOn }),
    ...(place ? [wouldPassEndpoint({ journal, readOther: otherReader(place), clock })] : []),
    liveEndpoints(await parts.streams(), isOn),
    contentEndpoints({
      ...{ journal, isOn },
      reader: mail.contentReader,
      keyRecords: () => [...[...keys.signing.values()].flat(), ...keys.platform].map(recordOf),
    }),
    resendEndpoint({ journal, isOn, events, submit: mail.submit, suppressed: mail.suppressed }),
    journalEndpoints({ journal, isOn, events, account }),
    webhookEndpoints({ ...webhooks, events, clock, log }),
    ...(await edge.plugins()),
    domainEndpoints({
      now: () => clock.now(),
      domainKeys: (domain) => keys.signing.get(domain) ?? [],
      facts: recordFacts(config),
      dns: systemDns(config.delivery.resolver?.servers),
    }),
    ...(await proxy.plugins()),
    ...consoleEndpoints(config, parts.sources),
  ];
}
