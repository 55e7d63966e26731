// What bench:edge asks for: bodies of an origin through the edge, and errors of the edge itself.

import { edgeErrors } from '../src/edge/errors/catalogue.ts';
import { defaultAnswer } from '../src/edge/errors/default-answer.ts';

/** One kind of request. */
export interface Ask {
  /** In results and tables. */
  readonly name: string;
  readonly host: string;
  readonly path: string;
  readonly accept: string;
  /** That each system answers; a system that is not there has nothing to answer it with. */
  readonly status: Readonly<Partial<Record<string, number>>>;
  /** Part of the requests of a run that are made of it: large bodies take longer. */
  readonly share: number;
}

/** Nobody listens there; below the ports that the system gives to clients, one of which could meet itself. */
export const closedPort = 1;

/** A body of so many octets from the origin. */
export function proxied(octets: number): Ask {
  return {
    name: `proxied, ${octets.toLocaleString('en')} octets`,
    host: 'bench.example',
    path: `/${octets}`,
    accept: '*/*',
    status: { postern: 200, before: 200, nginx: 200, caddy: 200, 'node proxy': 200, 'node server': 200, direct: 200 },
    share: octets >= 65_536 ? 0.5 : 1,
  };
}

const statusOf = (status: number) => ({
  postern: status,
  before: status,
  nginx: status,
  caddy: status,
  'node server': status,
});

const formats = { json: 'application/json', markdown: 'text/markdown', html: 'text/html' } as const;
const asked = { host: 'bench.example', path: '/cdn-cgi/error/522', status: statusOf(522), share: 1 };

/** Errors by their names in `--errors`. */
export const errorAsks = {
  json: { ...asked, name: 'error 522, JSON', accept: formats.json },
  markdown: { ...asked, name: 'error 522, Markdown', accept: formats.markdown },
  html: { ...asked, name: 'error 522, HTML', accept: formats.html },
  down: {
    name: 'origin down, JSON',
    host: 'down.example',
    path: '/',
    accept: formats.json,
    status: { postern: 521, before: 521, nginx: 502, caddy: 502, 'node proxy': 502 },
    share: 1,
  },
} as const satisfies Record<string, Ask>;

function page(format: keyof typeof formats): Buffer {
  const docsBaseUrl = 'http://127.0.0.1:8080';
  return defaultAnswer(
    { error: edgeErrors[522], rayId: '0'.repeat(16), at: 0, zone: 'bench.example', docsBaseUrl },
    format,
  ).body;
}

/** Pages for who serves them from files: bodies as Postern makes them, so as large. */
export function errorPages(): Readonly<Record<keyof typeof formats, Buffer>> {
  return { json: page('json'), markdown: page('markdown'), html: page('html') };
}
