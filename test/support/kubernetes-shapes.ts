// The fields of Kubernetes objects that deploy/kubernetes.yaml uses, with their types (API reference of release 1.30). A field
// that is not here, such as one with a slip of the pen, which the server would pass over, is a fault.

/** A type, or an object with fields; a field whose name ends with ? may be absent; a list has one shape for all; * is any name. */
type Shape =
  | 'boolean'
  | 'integer'
  | 'string'
  | 'port'
  | 'quantity'
  | readonly [Shape]
  | { readonly [field: string]: Shape };

const names = { '*': 'string' } as const;
const metadata: Shape = { name: 'string', 'labels?': names };
const selector: Shape = { matchLabels: names };
const probe: Shape = {
  httpGet: { path: 'string', port: 'port' },
  periodSeconds: 'integer',
  failureThreshold: 'integer',
  'timeoutSeconds?': 'integer',
};
const container: Shape = {
  name: 'string',
  image: 'string',
  args: ['string'],
  env: [{ name: 'string', 'value?': 'string', 'valueFrom?': { secretKeyRef: { name: 'string', key: 'string' } } }],
  ports: [{ name: 'string', containerPort: 'integer', protocol: 'string' }],
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  lifecycle: { preStop: { exec: { command: ['string'] } } },
  resources: { requests: { cpu: 'quantity', memory: 'quantity' }, limits: { memory: 'quantity' } },
  securityContext: {
    allowPrivilegeEscalation: 'boolean',
    readOnlyRootFilesystem: 'boolean',
    capabilities: { drop: ['string'] },
  },
  volumeMounts: [{ name: 'string', mountPath: 'string', 'readOnly?': 'boolean' }],
};
const pod: Shape = {
  serviceAccountName: 'string',
  automountServiceAccountToken: 'boolean',
  terminationGracePeriodSeconds: 'integer',
  securityContext: {
    runAsNonRoot: 'boolean',
    runAsUser: 'integer',
    runAsGroup: 'integer',
    fsGroup: 'integer',
    seccompProfile: { type: 'string' },
  },
  topologySpreadConstraints: [
    { maxSkew: 'integer', topologyKey: 'string', whenUnsatisfiable: 'string', labelSelector: selector },
  ],
  containers: [container],
  volumes: [
    {
      name: 'string',
      'configMap?': { name: 'string' },
      'secret?': { secretName: 'string', defaultMode: 'integer', 'items?': [{ key: 'string', path: 'string' }] },
      'emptyDir?': { sizeLimit: 'quantity' },
    },
  ],
};

const shapes: Readonly<Record<string, Shape>> = {
  'v1 ServiceAccount': { metadata, automountServiceAccountToken: 'boolean' },
  'v1 ConfigMap': { metadata, data: names },
  'v1 Service': {
    metadata,
    spec: { selector: names, ports: [{ name: 'string', port: 'integer', targetPort: 'port', protocol: 'string' }] },
  },
  'policy/v1 PodDisruptionBudget': { metadata, spec: { minAvailable: 'integer', selector } },
  'apps/v1 Deployment': {
    metadata,
    spec: {
      replicas: 'integer',
      selector,
      strategy: { type: 'string', rollingUpdate: { maxUnavailable: 'integer', maxSurge: 'integer' } },
      template: { metadata: { labels: names }, spec: pod },
    },
  },
};

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isOf(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'port')
    return Number.isInteger(value) || (typeof value === 'string' && /^[a-z][a-z0-9-]{0,14}$/.test(value));
  if (type === 'quantity') return typeof value === 'string' && /^\d+(?:m|[KMG]i)?$/.test(value);
  return typeof value === type;
}

function faultsOf(value: unknown, shape: Shape, path: string): string[] {
  if (typeof shape === 'string') return isOf(value, shape) ? [] : [`${path}: want ${shape}`];
  if (Array.isArray(shape)) {
    const [one] = shape as readonly [Shape];
    if (!Array.isArray(value)) return [`${path}: want a list`];
    return value.flatMap((item: unknown, at) => faultsOf(item, one, `${path}[${at}]`));
  }
  if (!isRecord(value)) return [`${path}: want an object`];
  const fields = shape as Readonly<Record<string, Shape>>;
  const unknown = Object.keys(value).filter((key) => !('*' in fields) && !(key in fields) && !(`${key}?` in fields));
  const missing = Object.keys(fields).filter((key) => key !== '*' && !key.endsWith('?') && !(key in value));
  return [
    ...unknown.map((key) => `${path}.${key}: unknown`),
    ...missing.map((key) => `${path}.${key}: missing`),
    ...Object.entries(value).flatMap(([key, inner]) => {
      const known = fields[key] ?? fields[`${key}?`] ?? fields['*'];
      return known === undefined ? [] : faultsOf(inner, known, `${path}.${key}`);
    }),
  ];
}

/** The faults of an object of Kubernetes, one line each. */
export function kubernetesFaults(object: Readonly<Record<string, unknown>>): string[] {
  const { apiVersion, kind, ...rest } = object;
  const name = `${String(apiVersion)} ${String(kind)}`;
  const shape = shapes[name];
  return shape ? faultsOf(rest, shape, name) : [`${name}: unknown`];
}
