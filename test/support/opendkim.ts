// OpenDKIM's verdict on signatures: Debian's `opendkim -t`, with the public keys out of a file in place of the DNS.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runProgram } from '../system/programs.ts';

/** What OpenDKIM says of a message. */
export interface OpenDkimVerdict {
  /** One a signature, in their order: `pass example.com rsa-sha256 s1`. */
  readonly signatures: readonly string[];
  /** Its line for the message: `verification (s=..., d=..., 2048-bit key) succeeded`, or `... failed: why`. */
  readonly summary: string;
}

/** An OpenDKIM with keys. */
export interface OpenDkim {
  verify(message: Buffer): Promise<OpenDkimVerdict>;
  /** Removes its folder. */
  remove(): void;
}

function readVerdict(output: string): OpenDkimVerdict {
  const unfolded = output.replaceAll(/\n\t/g, ' ');
  const signatures = [...unfolded.matchAll(/dkim=(\w+)[^;]*? header\.d=(\S+)[^;]*? header\.a=(\S+) header\.s=(\S+)/g)];
  return {
    signatures: signatures.map(([, result, domain, algorithm, selector]) =>
      [result, domain, algorithm, selector].join(' '),
    ),
    // Its exit code is 0 whatever it finds: the words tell.
    summary: /^opendkim: \S+: (verification .*)$/m.exec(unfolded)?.[1] ?? `no verdict:\n${output}`,
  };
}

/** Sets it up. @param records DNS names of keys with their TXT records */
export function openDkim(records: ReadonlyMap<string, string>): OpenDkim {
  const folder = mkdtempSync(join(tmpdir(), 'postern-opendkim-'));
  const [config, keys, file] = [join(folder, 'conf'), join(folder, 'keys'), join(folder, 'message.eml')];
  writeFileSync(keys, [...records].map(([name, text]) => `${name} ${text}\n`).join(''));
  writeFileSync(config, `Mode v\nSocket inet:8891@127.0.0.1\nTestPublicKeys ${keys}\n`);
  return {
    verify: async (message) => {
      writeFileSync(file, message);
      const { output } = await runProgram('opendkim', ['-x', config, '-vv', '-t', file]);
      return readVerdict(output);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
