// Checks every minute whether a certificate that listeners show was renewed, and replaces that certificate alone. Where the
// new one cannot be used, the old one stays.

import { fileMark } from '../../base/file-mark.ts';
import type { MetricFamily } from '../../web/http/metrics.ts';
import { readTlsKeys, type TlsFiles, type TlsKeys, tlsFilesFor } from '../bootstrap/bootstrap.ts';
import type { Shared } from './in-force.ts';

/** The parts that the watch is made from. */
export interface CertificateWatchParts extends Pick<Shared, 'live' | 'clock' | 'log'> {
  /** Called with each renewed certificate, which the listeners are to show from then on. */
  readonly onRenewed: (keys: TlsKeys) => void;
  /** Milliseconds from one check to the next; 60,000 if absent. */
  readonly everyMs?: number | undefined;
}

/** The watch over the certificates in use. */
export interface CertificateWatch {
  start(): void;
  /** Forgets the state of the files. Called after a reload, which has read all of them itself. */
  reset(): void;
  stop(): void;
  readonly families: readonly MetricFamily[];
}

const defaultEveryMs = 60_000;

function markOf({ certificateFile, privateKeyFile }: TlsFiles): string {
  try {
    return `${fileMark(certificateFile) ?? 'none'}, ${fileMark(privateKeyFile) ?? 'none'}`;
  } catch {
    return 'cannot be looked at';
  }
}

/** Makes the watch. It reads no file before `start`. */
export function watchCertificates(parts: CertificateWatchParts): CertificateWatch {
  const { live, log } = parts;
  const marks = new Map<string, string>();
  const faults = new Map<string, string>();
  let timer: NodeJS.Timeout | undefined;

  const placesNow = (): TlsFiles[] => {
    const { config, keys } = live.current;
    return tlsFilesFor(config.certsDir, keys.tls.keys());
  };

  /** @returns why the new certificate cannot be used; undefined where it can */
  function renew(place: TlsFiles, before: TlsKeys): string | undefined {
    const read = readTlsKeys(place);
    if ('problem' in read) return read.problem;
    const { keys } = read;
    if (keys.certificate === before.certificate && keys.privateKey === before.privateKey) return undefined;
    const now = parts.clock.now();
    if (keys.notAfter <= now && before.notAfter > now) return `${place.certificateFile} has expired already`;
    live.current = {
      ...live.current,
      keys: { ...live.current.keys, tls: new Map([...live.current.keys.tls, [place.host, keys]]) },
    };
    parts.onRenewed(keys);
    log.info({ host: place.host, expiresAt: new Date(keys.notAfter).toISOString() }, 'certificate renewed');
    return undefined;
  }

  function look(): void {
    for (const place of placesNow()) {
      const mark = markOf(place);
      if (marks.get(place.host) === mark) continue;
      // The mark is taken before the files are read, so that a change made during the reading is seen at the next check.
      marks.set(place.host, mark);
      const before = live.current.keys.tls.get(place.host);
      const fault = before && renew(place, before);
      if (fault === undefined) faults.delete(place.host);
      else if (faults.get(place.host) !== fault) {
        faults.set(place.host, fault);
        log.error({ host: place.host, reason: fault }, 'the certificate before is shown on');
      }
    }
  }

  return {
    // The first check reads every file once more, so that a renewal since the start read it is not missed.
    reset() {
      marks.clear();
      faults.clear();
    },
    start() {
      timer = setInterval(() => {
        try {
          look();
        } catch (err) {
          log.error({ err }, 'certificates could not be looked at');
        }
      }, parts.everyMs ?? defaultEveryMs);
      timer.unref();
    },
    stop: () => clearInterval(timer),
    families: [
      {
        kind: 'gauge',
        over: 'min',
        name: 'postern_certificate_expiry_timestamp_seconds',
        help: 'When the certificate that listeners show for a host expires, seconds since 1970',
        label: 'host',
        read: () => [...live.current.keys.tls.values()].map(({ host, notAfter }) => [host, notAfter / 1000] as const),
      },
      {
        kind: 'gauge',
        over: 'max',
        name: 'postern_certificate_renewal_failed',
        help: '1 where the files of a host hold no certificate that can be used, so that the one before is shown',
        label: 'host',
        read: () => [...live.current.keys.tls.keys()].map((host) => [host, faults.has(host) ? 1 : 0] as const),
      },
    ],
  };
}
