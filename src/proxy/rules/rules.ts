// The rules of proxy applications: one table over (application, facts), everything else is read from it (D82, D83).

import type { Fault, RuleCode } from '../../web/http/envelope.ts';
import type { ApplicationFields } from '../application/application.ts';
import { joinReasons, parseProtocol } from '../application/texts.ts';
import type { ZoneAndOwner } from '../application/zone.ts';
import { maxApplications, type StoreConflict } from '../store/application-writing.ts';
import type { Facts, Judge } from './facts.ts';
import * as judges from './judges.ts';
import type { Reason } from './read-addresses.ts';
import type { Judged } from './read-application.ts';

/** One row of the table. */
export interface Rule {
  readonly name: string;
  /** HTTP status where it is the first of the answer; absent: 400. */
  readonly status?: number;
  /** When it is broken; a sentence for the documentation. */
  readonly when: string;
  /** What to do; a sentence at the end of the message, and in the documentation. */
  readonly resolution: string;
  readonly judge: Judge;
}

// 10002 is no rule that an application can break: it answers alone, when facts cannot be had (D83).
const never: Judge = () => [];

/** The rules by code. Integer keys are in ascending order in any object: that is the order of answers, too (D82). */
export const rules = {
  10002: {
    name: 'Unexpected internal server error',
    status: 500,
    when: 'Something failed that is not the request. 503 where the facts of DNS or of address management cannot be had, 500 otherwise; always alone. Reasons that need no such facts are told instead of a 503.',
    resolution: 'Give the Ray ID to support; after a 503 try again later.',
    judge: never,
  },
  10012: {
    name: 'Unknown field in request JSON',
    when: 'The account is pay-as-you-go, and the body has another field than protocol, dns and origin_direct. Other plans may send any field; unknown ones are passed over.',
    resolution: 'Send only protocol, dns and origin_direct, or have the paid add-on enabled.',
    judge: judges.unknownFields,
  },
  11000: {
    name: 'Invalid origin configuration',
    when: 'Both or neither of origin_direct and origin_dns are given; origin_direct is empty, or an entry’s transport is not the protocol’s; origin_port is no port or ascending range; the origin’s ports are not as many as the protocol’s; http or https traffic or PROXY protocol is asked of a virtual network.',
    resolution: 'Give exactly one of origin_direct and origin_dns, with the protocol’s transport and number of ports.',
    judge: judges.originForm,
  },
  11001: {
    name: 'Invalid origin DNS configuration',
    when: 'origin_dns.name is no domain name; origin_dns.type is not "", A, AAAA or SRV; origin_port is missing though the type is not SRV; origin_dns.ttl is not 600 to 86400.',
    resolution: 'Correct the field.',
    judge: judges.originDns,
  },
  11002: {
    name: 'Invalid origin address',
    when: 'An entry of origin_direct cannot be read, has an IPv6 address without brackets, is in a network that origins may not be in, or is a listener of Postern itself that proxy.originAllow does not name.',
    resolution: 'Write tcp://192.0.2.1:22 or tcp://[2001:db8::1]:22, with an address that is allowed.',
    judge: judges.originAddress,
  },
  11004: {
    name: 'Invalid DNS configuration',
    when: 'dns.type is not CNAME for dynamic or ADDRESS for static edge IPs; it is changed by an update; dns.name is under no zone.',
    resolution:
      'Use CNAME with dynamic and ADDRESS with static edge IPs, a name in the zone, and do not change the type.',
    judge: judges.dnsType,
  },
  11014: {
    name: 'FTP not enabled',
    status: 403,
    when: 'protocol or traffic_type is ftp, and the account is not entitled to it.',
    resolution: 'Ask the account team to enable FTP.',
    judge: judges.ftp,
  },
  11018: {
    name: 'edge_ips not enabled',
    status: 403,
    when: 'edge_ips is static, and the account is not entitled to it.',
    resolution: 'Ask the account team to enable static edge IPs.',
    judge: judges.edgeIps,
  },
  11019: {
    name: 'edge_ips not authorized',
    when: 'The token may not read IP prefixes, or an edge IP is in no prefix of the account.',
    resolution:
      'Use the global key or a token with the scope ip_prefixes:read, and IPs of a prefix allocated to the account.',
    judge: judges.edgeIpsAuthorized,
  },
  11026: {
    name: 'Smart routing not enabled',
    status: 403,
    when: 'smart_routing is true, and the account is not entitled to it.',
    resolution: 'Ask the account team to enable smart routing.',
    judge: judges.smartRouting,
  },
  11033: {
    name: 'edge_ips in use',
    when: 'An edge IP is used by an application of another zone.',
    resolution: 'Use other edge IPs, or contact support.',
    judge: judges.edgeIpsFree,
  },
  11034: {
    name: 'Cannot create more applications for protocol',
    when: 'The account is pay-as-you-go, and one of its zones has an application of the same protocol.',
    resolution: 'Change or delete that application, or have the paid add-on enabled.',
    judge: judges.soleProtocol,
  },
  11041: {
    name: 'Virtual network requires origin direct',
    when: 'virtual_network_id is given with origin_dns.',
    resolution: 'Use origin_direct with the private IP and a single port.',
    judge: judges.virtualNetworkForm,
  },
  11042: {
    name: 'Virtual network requires single origin',
    when: 'virtual_network_id is given, and origin_direct has more than one entry.',
    resolution: 'Use one entry in origin_direct.',
    judge: judges.virtualNetworkOrigin,
  },
  11043: {
    name: 'Virtual network no port range',
    when: 'virtual_network_id is given, and origin_port or the entry of origin_direct has a range of ports.',
    resolution: 'Use a single port, and one application for each port.',
    judge: judges.virtualNetworkPort,
  },
  11044: {
    name: 'Virtual network route not found',
    when: 'The account has no virtual network of this id, or it has no route to the origin’s IP.',
    resolution: 'Check the id and the routes of the virtual network, or add a route.',
    judge: judges.virtualNetworkRoute,
  },
  11045: {
    name: 'Virtual network invalid UUID',
    when: 'virtual_network_id is no UUID.',
    resolution: 'Use the id that the listing of virtual networks shows.',
    judge: judges.virtualNetworkId,
  },
  11050: {
    name: 'Invalid cross-zone origin DNS configuration',
    when: 'origin_dns.name is the name of a record or load balancer outside the zone and the zones that it permits.',
    resolution: 'Use a name in the same zone, or origin_direct with an IP.',
    judge: judges.originZone,
  },
  12005: {
    name: 'IPv4 quota limit',
    when: 'The hostname needs an IPv4 address, and the zone has used up its quota.',
    resolution: 'Let applications share a hostname on different ports, buy more IPs, or use prefixes of your own.',
    judge: judges.ipv4Quota,
  },
  13002: {
    name: 'Protocol not available',
    when: 'Ports of the protocol are not available in the zone, or another application has them on the same address. The message names each.',
    resolution: 'Use another protocol or port.',
    judge: judges.portsAllowed,
  },
  16001: {
    name: 'Zone mismatch',
    status: 409,
    when: 'dns.name is under another zone, or an application of another zone has it.',
    resolution:
      'Check the zone id in the URL, use another name, delete the other zone’s application, or contact support.',
    judge: judges.hostnameZone,
  },
} as const satisfies Record<RuleCode, Rule>;

function isRuleCode(code: number): code is RuleCode {
  return Object.hasOwn(rules, code);
}

/** The rows in the order of the table. */
export const ruleRows: readonly { readonly code: RuleCode; readonly rule: Required<Rule> }[] = Object.keys(rules)
  .map(Number)
  .filter(isRuleCode)
  .map((code) => ({ code, rule: { status: 400, ...rules[code] } }));

/** Reasons told in one message at most; of the others, the number. */
const maxReasons = 8;

function faultOf(code: RuleCode, { name, status = 400, resolution }: Rule, reasons: readonly Reason[]): Fault {
  const texts = reasons.map(({ text }) => text);
  const message = `${name}: ${joinReasons(texts, maxReasons)}. ${resolution}`;
  const pointer = reasons[0]?.pointer;
  return { number: code, status, message, ...(pointer === undefined ? {} : { pointer }) };
}

/** What is in no row: 10001, one fault for each reason (D82). */
export function malformed(reason: Reason): Fault {
  return { number: 10001, status: 400, message: reason.text, pointer: reason.pointer ?? '' };
}

/** Judges an application. @param facts absent: only what needs none is told (D83) @returns faults in table order */
export function faultsOf(judged: Judged, facts: Facts | undefined): readonly Fault[] {
  const broken = ruleRows.flatMap(({ code, rule }) => {
    const reasons = rule.judge(judged, facts);
    return reasons.length === 0 ? [] : [faultOf(code, rule, reasons)];
  });
  return [...judged.application.faults.filter(({ code }) => code === 10001).map(malformed), ...broken];
}

/** 10002: names the Ray ID and nothing else. @param status 503 where a source of facts failed, otherwise 500 */
export function internalFault(status: 500 | 503, rayId: string): Fault {
  return { number: 10002, status, message: `${rules[10002].name}. Ray ID: ${rayId}` };
}

function lost(code: RuleCode, reason: Reason): readonly Fault[] {
  return [faultOf(code, rules[code], [reason])];
}

/** The faults of a write that lost a race (D87), in the words of the rule that would have told it before. */
export function conflictFaults(
  conflict: StoreConflict,
  { fields, zone, account }: ZoneAndOwner & { readonly fields: ApplicationFields },
): readonly Fault[] {
  const protocol = parseProtocol(fields.protocol);
  if (conflict.kind === 'applications') {
    const message = `Zone ${zone.name} has ${maxApplications} applications, and may not have more`;
    return [{ token: 'E_VALIDATION_ERROR', message }];
  }
  if (conflict.kind === 'edge-ips') return lost(11033, judges.edgeIpsInUse(conflict.ips));
  if (conflict.kind === 'ports') return lost(13002, judges.portsTaken(protocol?.transport ?? 'tcp', conflict.ports));
  if (conflict.kind === 'protocol')
    return lost(11034, judges.protocolUsed(protocol?.canonical ?? fields.protocol, account));
  if (conflict.kind === 'hostname') return lost(16001, judges.hostnameElsewhere(fields.dns.name));
  return lost(12005, conflict.kind === 'pool' ? judges.poolUsedUp() : judges.quotaUsedUp(zone));
}
