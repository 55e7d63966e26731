// The manifest in deploy/: its fields are those of Kubernetes, its parts fit together, and its probes answer.

import { existsSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../src/app/config/config.ts';
import { kubernetesFaults } from './support/kubernetes-shapes.ts';
import { projectRoot, startPostern } from './support/postern-process.ts';
import { loadYaml } from './support/scratch.ts';

interface Named {
  readonly name: string;
}
interface Port extends Named {
  readonly containerPort: number;
}
interface Volume extends Named {
  readonly secret?: { readonly items?: readonly { readonly path: string }[] };
}
interface Deployment {
  readonly spec: {
    readonly replicas: number;
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly volumes: readonly Volume[];
        readonly containers: readonly [
          {
            readonly args: readonly string[];
            readonly env: readonly (Named & { readonly value?: string })[];
            readonly ports: readonly Port[];
            readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
            readonly volumeMounts: readonly (Named & { readonly mountPath: string })[];
          } & Readonly<
            Record<
              'startupProbe' | 'livenessProbe' | 'readinessProbe',
              { readonly httpGet: { path: string; port: string } }
            >
          >,
        ];
      };
    };
  };
}

const text = readFileSync(join(projectRoot, 'deploy/kubernetes.yaml'), 'utf8');
const documents = parseAllDocuments(text) as readonly { toJSON(): unknown }[];
const objects = documents
  .map((document) => document.toJSON() as Readonly<Record<string, unknown>> | null)
  .filter((object) => object !== null);
const ofKind = (kind: string): unknown => objects.find((object) => object['kind'] === kind);
const deployment = ofKind('Deployment') as Deployment;
const { spec: pod, metadata } = deployment.spec.template;
const [container] = pod.containers;
const yaml = (ofKind('ConfigMap') as { readonly data: Readonly<Record<string, string>> }).data['postern.yaml'] ?? '';

test('every field is one of Kubernetes, with a value of its type', () => {
  expect(objects.map(({ kind }) => kind)).toEqual([
    'ServiceAccount',
    'ConfigMap',
    'Deployment',
    'Service',
    'PodDisruptionBudget',
  ]);
  expect(objects.flatMap(kubernetesFaults)).toEqual([]);
  const slip = JSON.parse(JSON.stringify(deployment).replace('readinessProbe', 'readynessProbe')) as Record<
    string,
    unknown
  >;
  expect(kubernetesFaults(slip)).toHaveLength(2);
});

test('ports, labels, volumes and environment name one another, and the configuration is valid', () => {
  expect(loadYaml(yaml, { POSTERN_RELAY_PASSWORD: 'x' }).accounts).toHaveLength(1);
  const service = ofKind('Service') as {
    readonly spec: { readonly selector: object; readonly ports: readonly { readonly targetPort: string }[] };
  };
  const budget = ofKind('PodDisruptionBudget') as {
    readonly spec: { readonly minAvailable: number; readonly selector: { readonly matchLabels: object } };
  };
  expect([service.spec.selector, budget.spec.selector.matchLabels]).toEqual([metadata.labels, metadata.labels]);
  expect(service.spec.ports.map(({ targetPort }) => targetPort)).toEqual(container.ports.map(({ name }) => name));
  // A host can be drained: another gateway than the one that must stay is there.
  expect(deployment.spec.replicas).toBeGreaterThan(budget.spec.minAvailable);
  const { smtp, http } = parse(yaml) as {
    smtp: { listeners: { name: string; listen: string }[] };
    http: { listen: string };
  };
  const listening = [...smtp.listeners, { name: 'http', listen: http.listen }].map(({ name, listen }) => [
    name,
    Number(listen.split(':')[1]),
  ]);
  expect(container.ports.map(({ name, containerPort }) => [name, containerPort])).toEqual(listening);
  expect(pod.volumes.map(({ name }) => name)).toEqual(container.volumeMounts.map(({ name }) => name));
  const places = new Map(container.env.map(({ name, value }) => [name, value]));
  expect(places.get('POSTERN_BIND')).toBe('0.0.0.0');
  const mounts = container.volumeMounts.map(({ mountPath }) => mountPath);
  expect(mounts).toEqual(expect.arrayContaining([places.get('POSTERN_DATA_DIR'), places.get('POSTERN_CERTS_DIR')]));
  expect(yaml).toContain('passwordFile: /run/secrets/postern/password');
  expect(mounts).toContain('/run/secrets/postern');
});

test('the pod has longer to stop than the pause and the drain take together', () => {
  const { drainSeconds } = loadConfig({ cwd: projectRoot, env: {}, file: 'config/postern.yaml' });
  const told = (parse(yaml) as { drainSeconds?: number }).drainSeconds ?? drainSeconds;
  const [program, pause] = container.lifecycle.preStop.exec.command;
  expect(program).toBe('sleep');
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(told + Number(pause) + 5);
});

/** Asks as a kubelet does, by the address of the pod. */
function probe(port: number, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { host: '10.244.0.17:8080', 'user-agent': 'kube-probe/1.30', connection: 'close' };
    const asked = request({ port, host: '127.0.0.1', path, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.once('error', reject).end();
  });
}

test('a gateway with this configuration answers the probes, and finds its keys where the manifest puts them', async () => {
  const { database: _, drainSeconds: _drain, ...rest } = parse(yaml) as Record<string, unknown>;
  const config = { ...rest, development: { account: 'main', credential: 'default' } };
  const ports = { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0' };
  const postern = await startPostern({ config, makesKeys: true, env: { ...ports, POSTERN_RELAY_PASSWORD: 'x' } });
  onTestFinished(() => postern.cleanUp());
  const http = postern.ports['http'] ?? 0;
  for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
    const { path, port } = container[name].httpGet;
    expect([name, port, await probe(http, path)]).toEqual([name, 'http', 200]);
  }
  const keys = pod.volumes.flatMap(({ secret }) => secret?.items?.map(({ path }) => path) ?? []);
  expect(keys.filter((path) => !existsSync(join(postern.certsDir, path)))).toEqual([]);
  expect(keys).toHaveLength(4);
});
