// How the commands of the documents are run (test/system/documents.test.ts). What is not named here is run as it is written
// beside a gateway of the shipped configuration and must end with 0.

/** A block of commands, by its page and the text that it begins with. */
export interface NamedBlock {
  readonly page: string;
  readonly begins: string;
}

/** A block that is not run by documents.test.ts. */
export interface BlockElsewhere extends NamedBlock {
  /** The files that run it. Empty where none of our machines can. */
  readonly by: readonly string[];
  readonly because: string;
}

/** What a block needs around it. */
export interface ArrangedBlock extends NamedBlock {
  /** Commands that run before it in the same shell. What they print is not part of the answer. */
  readonly before?: string;
  /** Texts that stand for something of the reader's machine, and what takes their place. */
  readonly instead?: readonly (readonly [string, string])[];
  readonly env?: Readonly<Record<string, string>>;
  /** Whether it asks a name server, which is one of the test's own that knows no name: `$NAME_SERVER`. */
  readonly asksDns?: true;
  /** Exit code; 0 if absent. */
  readonly code?: number;
  /** What the output must show. */
  readonly says?: readonly RegExp[];
  /** It starts a server, which runs while the blocks with this text in `during` are run. */
  readonly starts?: true;
  /** The beginning of the block of the same page whose server it speaks to. */
  readonly during?: string;
}

/** Takes the first id that a command prints in its first column. */
const firstId = (command: string): string =>
  `ID=$(${command} | grep -oE '^[0-9a-f-]{16,36}' | head -n 1); test -n "$ID"`;

/** Writes an mbox file of one message. */
const archive =
  "printf 'From a@example.com Sun Nov 22 10:00:00 2026\\nFrom: a@example.com\\nTo: b@example.net\\nSubject: x\\n\\nx\\n' > ~/sent.mbox";

export const elsewhere: readonly BlockElsewhere[] = [
  {
    page: 'docs/upkeep.md',
    begins: 'postern migrate',
    by: ['test/system/move-gateway.test.ts'],
    because: 'it needs a PostgreSQL, which that test has',
  },
  {
    page: 'README.md',
    begins: 'npm ci && npm start',
    by: ['.ci/run', 'test/e2e/shutdown.test.ts', 'test/system/banner.test.ts'],
    because: 'it installs anew; CI does that on a clean machine, and tests start it by npm start',
  },
  { page: 'README.md', begins: 'npm ci && npm test', by: ['.ci/run'], because: 'it runs this suite' },
  { page: 'CONTRIBUTING.md', begins: 'npm ci', by: ['.ci/run', 'test/e2e/shutdown.test.ts'], because: 'the same' },
  { page: 'CONTRIBUTING.md', begins: 'npm run check', by: ['.ci/run'], because: 'it runs this suite' },
  { page: 'docs/testing.md', begins: 'npx vitest run', by: ['.ci/run'], because: 'they run this suite' },
  { page: 'docs/testing.md', begins: 'for turn in', by: ['.ci/run'], because: 'FILE and NAME are to be filled in' },
  {
    page: 'docs/tour.md',
    begins: 'docker compose up',
    by: ['test/system/image.test.ts'],
    because: 'CI has no Docker engine; the test builds the image and runs what compose.yaml says without one',
  },
  {
    page: 'docs/operations.md',
    begins: 'cp config/examples/staging.yaml staging.yaml',
    by: ['test/system/image.test.ts'],
    because: 'CI has no Docker engine; the test runs the same commands in the container',
  },
  {
    page: 'docs/webhooks.md',
    begins: 'postern webhook list',
    by: ['test/e2e/webhooks.test.ts'],
    because: 'its webhook leads to a host that does not exist; the test runs these commands with one that answers',
  },
  {
    page: 'docs/operations.md',
    begins: 'useradd --system',
    by: ['test/deploy.test.ts'],
    because: 'it makes a user and enables a unit of systemd, which CI has not; the test checks the unit and its paths',
  },
];

export const arranged: readonly ArrangedBlock[] = [
  {
    page: 'docs/tour.md',
    begins: 'POSTERN_RELAY=',
    starts: true,
  },
  {
    page: 'docs/tour.md',
    begins: 'npm run -s postern -- check --as dev/oldbox',
    before: archive,
    says: [/1 of 1 message accepted/],
  },
  {
    page: 'docs/edge.md',
    begins: 'python3 -m http.server',
    instead: [['3000', '$ORIGIN_PORT']],
    starts: true,
  },
  {
    page: 'docs/edge.md',
    begins: 'curl -i http://127.0.0.1:8080/ ',
    during: 'python3 -m http.server',
    says: [/^HTTP\/1\.1 200 OK\r?$[\s\S]*^HTTP\/1\.1 522 [\s\S]*^error_code: 522$/m, /^ray-id: /im],
  },
  {
    page: 'docs/operations.md',
    begins: '#!/bin/sh',
    instead: [
      ['--reuid=postern --regid=postern', '--reuid=0 --regid=0'],
      ['/etc/postern/postern.yaml', '$POSTERN_CONFIG'],
      ['/etc/postern/certs', '$POSTERN_CERTS_DIR'],
      ['/var/lib/postern', '$POSTERN_DATA_DIR'],
      ['/opt/postern', '$CHECKOUT'],
      ['"$@"', 'config check'],
    ],
    says: [/^ok \S+postern\.yaml$/m],
  },
  {
    page: 'docs/delivery.md',
    begins: 'postern capture list',
    before: firstId('postern capture list'),
    // It asks at a terminal alone; elsewhere it wants --yes.
    instead: [['capture clear', 'capture clear --yes']],
  },
  {
    page: 'docs/operations.md',
    begins: 'postern dkim keygen',
    // A folder without keys, and a domain for which the configuration names one key alone.
    env: { POSTERN_CERTS_DIR: 'new-certs' },
    instead: [['example.com', 'example.net']],
    says: [/(s1\._domainkey\.example\.net\. .*TXT[^]*){2}/],
  },
  {
    page: 'docs/operations.md',
    begins: 'postern domain records',
    asksDns: true,
    instead: [['--check', '--check --server $NAME_SERVER']],
    code: 1,
    says: [/MISSING/],
  },
  {
    page: 'docs/operations.md',
    begins: 'postern token create',
    before: `postern token create --account dev --credential devices\n${firstId('postern token list')}`,
    says: [/^pt_\S+$/m],
  },
  {
    page: 'docs/watching.md',
    begins: 'postern queue list',
    before: `curl -sS http://127.0.0.1:8080/client/v4/accounts/dev/email/sending/send -o sent.json -H "Authorization: Bearer $TOKEN" \\
      -H 'Content-Type: application/json' -d '{"from": "a@example.com", "to": "you@partner.example", "subject": "x", "text": "x"}'
      ${firstId('postern queue list')}`,
    says: [/you@partner\.example: queued/],
  },
  {
    page: 'docs/estate.md',
    begins: 'postern check --as dev/oldbox',
    before: `${archive}
      mkdir -p mail-copies && tail -n +2 ~/sent.mbox > mail-copies/1.eml`,
    instead: [['/var/mail/copies', 'mail-copies']],
  },
  {
    page: 'docs/estate.md',
    begins: 'postern report --since 30d --with new.yaml',
    before: `${archive}
      cp config/postern.yaml new.yaml`,
    says: [/would/],
  },
  {
    page: 'docs/upkeep.md',
    begins: 'postern doctor',
    asksDns: true,
    instead: [
      ['postern doctor', 'postern doctor --server $NAME_SERVER'],
      ['ntp.example.net', '127.0.0.1'],
    ],
    // The name server of this test knows no name.
    code: 2,
    says: [/^FAULT +dkim /m],
  },
  {
    page: 'docs/upkeep.md',
    begins: 'postern reload',
    says: [/^reloaded: /m],
  },
  {
    page: 'docs/upkeep.md',
    begins: 'postern backup',
    before: 'mkdir -p backup',
    instead: [
      ['/backup/', 'backup/'],
      ['postern-2026-11-22', 'postern-$(date +%F)'],
      ['postern restore', 'POSTERN_DATA_DIR=restored postern restore'],
    ],
  },
  {
    page: 'docs/proxy-export.md',
    begins: 'postern proxy export',
    before: 'mkdir -p etc/haproxy etc/nginx etc/envoy',
    instead: [['/etc/', 'etc/']],
  },
  {
    page: 'docs/edge-behind-a-proxy.md',
    begins: 'postern edge export',
    before: 'mkdir -p etc/nginx/conf.d etc/haproxy etc/caddy',
    instead: [['/etc/', 'etc/']],
  },
  {
    page: 'docs/binding.md',
    begins: 'npm install ./postern-client',
    before: 'mkdir -p project && cp postern-client-*.tgz project/ && cd project && echo "{}" > package.json',
    instead: [['npm install', 'npm install --offline --no-audit --no-fund']],
  },
];
