// A folder in which the commands of the documents can be run as they are written: it looks like a checkout of the project,
// a gateway of the shipped configuration runs in it, and `postern` is a program.

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type PosternProcess, projectRoot, startPostern, testToken } from './postern-process.ts';

/** What the commands need of the project, and do not write to. */
const shared = [
  'package.json',
  'package-lock.json',
  'node_modules',
  'src',
  'docs',
  'deploy',
  'packages',
  'tsconfig.json',
];

/** Where mail for partner.example waits: nobody listens there, so that the queue has something to show. */
const partner = `routes:
  - { name: partner, type: smarthost, match: { recipientDomains: [partner.example] }, url: "smtp://127.0.0.1:1" }`;

const message = 'From: a@example.com\r\nTo: b@example.net\r\nSubject: A message to judge\r\n\r\nText.\r\n';

/** The folder and what runs in it. */
export interface DocumentsCheckout {
  readonly folder: string;
  readonly postern: PosternProcess;
  /** The environment of a shell that runs documented commands. */
  readonly env: NodeJS.ProcessEnv;
}

/** The environment without what the npm that runs the tests has put there, which would lead npm to the project itself. */
function withoutNpm(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:npm_|INIT_CWD$)/.test(name)));
}

function writePostern(bin: string): void {
  mkdirSync(bin);
  writeFileSync(join(bin, 'postern'), `#!/bin/sh\nexec '${process.execPath}' '${projectRoot}/src/main.ts' "$@"\n`);
  chmodSync(join(bin, 'postern'), 0o755);
}

/** Sends a message that is captured, so that there is one to list. */
async function captureMessage(postern: PosternProcess, base: string): Promise<void> {
  const sent = await fetch(`${base}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: 'a@example.com', to: 'b@example.net', subject: 'To be looked at', text: 'Text.' }),
  });
  if (sent.status !== 200) throw new Error(`Not sent: ${await sent.text()}`);
  await postern.until(() => postern.captured().length > 0);
}

/** Makes the folder and starts the gateway; `originPort` takes the place of 3000 in the example of the edge. */
export async function makeDocumentsCheckout(originPort: number): Promise<DocumentsCheckout> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-documents-'));
  for (const name of shared) symlinkSync(join(projectRoot, name), join(folder, name));
  mkdirSync(join(folder, 'config/examples'), { recursive: true });
  const read = (name: string): string => readFileSync(join(projectRoot, 'config', name), 'utf8');
  writeFileSync(join(folder, 'config/postern.yaml'), read('postern.yaml').replace('\nroutes:', `\n${partner}`));
  writeFileSync(join(folder, 'config/examples/staging.yaml'), read('examples/staging.yaml'));
  writeFileSync(
    join(folder, 'config/examples/every-rule.yaml'),
    read('examples/every-rule.yaml').replaceAll('127.0.0.1:3000', `127.0.0.1:${originPort}`),
  );
  writeFileSync(join(folder, 'message.eml'), message);
  writeFileSync(join(folder, 'error.html'), '<html><body>::ERROR_BOX::</body></html>');
  writePostern(join(folder, 'bin'));

  const file = join(folder, 'config/postern.yaml');
  const ports = { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0' };
  const postern = await startPostern({ folder, env: { ...ports, POSTERN_CONFIG: file } });
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  await captureMessage(postern, base);
  const env: NodeJS.ProcessEnv = {
    ...withoutNpm(),
    PATH: [join(folder, 'bin'), process.env['PATH']].join(delimiter),
    HOME: folder,
    CHECKOUT: folder,
    POSTERN_CONFIG: file,
    POSTERN_DATA_DIR: postern.dataDir,
    POSTERN_CERTS_DIR: postern.certsDir,
    POSTERN: base,
    TOKEN: testToken,
    PID: `${postern.pid}`,
    ORIGIN_PORT: `${originPort}`,
  };
  return { folder, postern, env };
}
