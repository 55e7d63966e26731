// Looks every minute for renewed certificates, and replaces those alone. Where a new one cannot be used, the old one stays.

import { fileMark } from '../../base/named-file.ts';
import type { MetricFamily } from '../../web/http/metrics.ts';
import { dateFault, readTlsKeys, type TlsFiles, type TlsKeys, tlsFilesFor } from '../bootstrap/bootstrap.ts';
import type { Shared } from './in-force.ts';

/** The parts that the watch is made from. */
export interface CertificateWatchParts extends Pick<Shared, 'live' | 'clock' | 'log'> {
  /** Called with each renewed certificate, which the listeners are to show from then on. */
  readonly onRenewed: (keys: TlsKeys) => void;
  /** Milliseconds from one check to the next; 60,000 if absent. */
  readonly everyMs?: number | undefined;
}

const defaultEveryMs = 60_000;

function markOf({ certificateFile, privateKeyFile }: TlsFiles): string {
  try {
    return `${fileMark(certificateFile) ?? 'none'}, ${fileMark(privateKeyFile) ?? 'none'}`;
  } catch {
    return 'cannot be looked at';
  }
}

/** The watch over the certificates in use. It reads no file before `start`. */
export class CertificateWatch {
  readonly #parts: CertificateWatchParts;
  readonly #marks = new Map<string, string>();
  readonly #faults = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;
  readonly families: readonly MetricFamily[] = [
    {
      kind: 'gauge',
      over: 'min',
      name: 'postern_certificate_expiry_timestamp_seconds',
      help: 'When the certificate that listeners show for a host expires, seconds since 1970',
      label: 'host',
      read: () =>
        this.#tls
          .values()
          .map(({ host, notAfter }) => [host, notAfter / 1000] as const)
          .toArray(),
    },
    {
      kind: 'gauge',
      over: 'max',
      name: 'postern_certificate_renewal_failed',
      help: '1 where the files of a host hold no certificate that can be used, so that the one before is shown',
      label: 'host',
      read: () =>
        this.#tls
          .keys()
          .map((host) => [host, this.#faults.has(host) ? 1 : 0] as const)
          .toArray(),
    },
  ];

  constructor(parts: CertificateWatchParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => {
      try {
        this.#look();
      } catch (err) {
        this.#parts.log.error({ err }, 'certificates could not be looked at');
      }
    }, this.#parts.everyMs ?? defaultEveryMs).unref();
  }

  /** Forgets the state of the files after a reload, which has read them. The first check reads every file once more. */
  reset(): void {
    this.#marks.clear();
    this.#faults.clear();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get #tls(): ReadonlyMap<string, TlsKeys> {
    return this.#parts.live.current.keys.tls;
  }

  #look(): void {
    const { live, log } = this.#parts;
    for (const place of tlsFilesFor(live.current.config.certsDir, this.#tls.keys())) {
      const mark = markOf(place);
      if (this.#marks.get(place.host) === mark) continue;
      // The mark is taken before the files are read, so that a change made during the reading is seen at the next check.
      this.#marks.set(place.host, mark);
      const before = this.#tls.get(place.host);
      const fault = before && this.#renew(place, before);
      if (fault === undefined) {
        this.#faults.delete(place.host);
        continue;
      }
      // The same files may do later: a certificate comes to be valid, a file can be read again.
      this.#marks.delete(place.host);
      if (this.#faults.get(place.host) !== fault) {
        this.#faults.set(place.host, fault);
        log.error({ host: place.host, reason: fault }, 'the certificate before is shown on');
      }
    }
  }

  /** @returns why the new certificate cannot be used; undefined where it can */
  #renew(place: TlsFiles, before: TlsKeys): string | undefined {
    const { live, clock, log, onRenewed } = this.#parts;
    const read = readTlsKeys(place);
    if ('problem' in read) return read.problem;
    const { keys } = read;
    if (keys.certificate === before.certificate && keys.privateKey === before.privateKey) return undefined;
    const fault = dateFault(keys, clock.now(), before);
    if (fault !== undefined) return fault;
    const tls = new Map([...this.#tls, [place.host, keys]]);
    live.current = { ...live.current, keys: { ...live.current.keys, tls } };
    onRenewed(keys);
    log.info({ host: place.host, expiresAt: new Date(keys.notAfter).toISOString() }, 'certificate renewed');
    return undefined;
  }
}
