// Classifies a failure by the table of rules.

import type { BounceClass } from '../../../spool/events/mail-event.ts';

// The table that says what a failure means for the next message to the same recipient. The first rule that fits decides. Many
// servers refuse a sender, a flood or a full mailbox with the status code of a mailbox that does not exist, so words that say
// so come before the codes. Only `hard` puts an address on the suppression list, and a rule is hard only where the words or
// the code say that nobody is there.

interface BounceRule {
  readonly class: BounceClass;
  /** The status codes that it fits, wholly. */
  readonly status?: RegExp;
  /** The words that it fits. Where both stand, both must fit. */
  readonly words?: RegExp;
  /** It suppresses only when it is said again a day later: where a zone is out of order, all its domains are not there. */
  readonly needsSecond?: true;
}

const nobody =
  /(?:user|recipient|mailbox|account|address|alias|e-?mail)[^.;]{0,40}?\b(?:unknown|not (?:be )?found|(?:does|do)(?: not?|n't) exists?|not exist|(?:is )?in(?:valid|activ)|disabled|no longer|is not (?:known|a valid|valid|here)|has been (?:disabled|closed|deleted|suspended)|closed)|\b(?:unknown|no such|no valid|invalid|inactive|deactivated|expired|nonexist[ae]nt|undeliverable|bad) (?:local )?(?:user|recipient|mailbox|account|address|alias|e-?mail|part)|unknown local-part|no user found|@ is no longer valid|mailbox here by that name|(?:sorry, )?no mailbox|can't find user's mailbox|mailbox (?:unavailable|not available)|not our customer|(?:does|do) not have an account|isn't in (?:.{0,40})list|not (?:listed )?in (?:the )?(?:public|domino|recipient)|user (?:doesn't|does not) have|recipient (?:address )?rejected: (?:user|unknown|undeliverable|inactive|invalid)|addressee unknown|(?:empf(?:ä|ae)nger|benutzer) (?:nicht bekannt|unbekannt|existiert nicht)|unbekannter (?:empf|benutzer)|adressat unbekannt|(?:benutzer|postfach|adresse)[^.;]{0,30}(?:unbekannt|existiert nicht|nicht gefunden)|(?:utilisateur|destinataire|adresse|bo[iî]te)[^.;]{0,30}(?:inconnue?|inexistante?|n'existe pas|introuvable)|(?:usuario|destinatario|buz[oó]n)[^.;]{0,30}(?:desconocido|no existe|inexistente)|utente (?:sconosciuto|inesistente)|(?:onbekende gebruiker|gebruiker onbekend)|(?:ユーザー?|宛先|メールアドレス|受信者)[^。]{0,30}(?:存在しません|見つかりません|不明|存在しない)|该?(?:用户|邮箱)不存在/iu;

const noDomain =
  /(?:host|domain)(?: or domain)?(?: name)? (?:unknown|not found|(?:does not|doesn't) exist)|unknown host|nxdomain|no such (?:host|domain)|domain (?:\S{1,255} )?(?:does not|doesn't) exist|unrouteable (?:mail domain|address)|unable to look up host|name or service not known|all relevant mx records point to non-existent|host inconnu|unbekannte domain|ホスト(?:名)?が見つかりません/iu;

const noMailThere = /null mx|does not accept (?:e-?)?mail/iu;

const full =
  /(?:mail ?box|quota|inbox|storage|disk ?space|maildir|account|user|postfach|bo[iî]te|buz[oó]n)[^.;]{0,40}?(?:\bfull\b|exceed|insufficient|exhausted|voll|pleine|lleno|(?:[üu]|ue)berschritten|d[ée]pass)|over ?(?:\w+ ){0,2}quota|quota (?:is )?(?:exceeded|violation|full)|exceed(?:s|ed|ing)? (?:the |its |their |storage |mailbox |disk )*(?:quota|allocation|space)|not enough (?:storage|disk)? ?space|out of (?:disk|storage)|speicherplatz|容量|メールボックス(?:が|は)(?:いっぱい|満杯)/iu;

/** Words about who sent the message or from where: nothing is said of the recipient, though "not found" may stand there. */
const ofSender =
  /sender(?:'s)? (?:<?@>? |user |account )?(?:address |domain |verif|call|rejected|denied|refused|blocked|unknown|not |(?:does|doesn't|is) |invalid|host|email|ip\b)|(?:invalid|envelope|bad|unauthori[sz]ed|unknown|no such|the) sender\b|\babsender(?:adresse)? (?:unbekannt|nicht|existiert)|return[- ]?path|envelope[- ]?from|mail ?from\b|(?:blank|valid) from\b|helo\b|ehlo\b|client host|reverse (?:dns|hostname|lookup)|\bptr\b|bad ip\b|(?:your|sending) (?:ip|host|server|domain)\b/i;

/** Words of lists, filters and rules that keep a message out, or of a server that does not relay. */
const blocked =
  /\bspam(?:mers?|ming|trap)?\b|\bjunk ?mail|unsolicited|\bspf\b|\bdkim\b|\bdmarc\b|(?:\b|_)block(?:ed|ing|[- ]?list)|bloqu[ée]|black ?list|deny ?list|\b\w{0,9}(?:rbl|dnsbl)\b|(?<!not )\blisted (?:at|by|in|on)\b|reputation|polic(?:y|ies)\b|content (?:reject|filter)|\bvirus\b|malware|phish|spoof|forgery|banned|administrative(?:ly)? prohibit|relay(?:ing)?\b[^.;]{0,40}(?:denied|disallowed|prohibited|rejected|not (?:permitted|allowed))|not (?:permitted|allowed|configured|authori[sz]ed)[^.;]{0,60}\brelay|(?:unable to|unauthori[sz]ed) relay|allowed rcpthosts|https?:\/\/\S{0,200}(?:spam|rbl|dnsbl|black-?list|block-?list)/iu;

/** Words of a recipient who is there, and does not want the message. */
const preference =
  /\bpreferences?\b|privacy settings|user (?:entry|refused)|(?:does not|doesn't|do not) (?:\w+ )?want|rejected by (?:this|the) (?:user|recipient)/iu;

/** Words of too much at a time: the same message may be taken later. */
const rate =
  /too (?:many|quickly|fast|much mail)|zu ?viele|rate[- ]limit|at a rate|(?:per|this|each) (?:hour|minute|day|session|connection)\b|(?<!size )limit[^.;]{0,20} (?:exceeded|reached)|(?:exceeded|reached)[^.;]{0,40}\b(?:limit for|limit of|daily limit)|maximum limit of|throttl|gr[ea]ylist|try[^.;]{0,30}\blater|temporar|plus tard|später|ultérieurement/iu;

const unwanted =
  /access denied|denied by|not authori[sz]ed|not allowed|not (?:rfc )?compliant|rejected (?:by|for|due)|\brejected$|too (?:large|big)|size (?:limit )?exceed|exceeds? (?:the )?(?:maximum )?(?:message )?size|message size|attachment|abgelehnt|refus[ée]|拒否|message filtered|problem occurred[^)]*\) \(BL\)/iu;

const notNow =
  /try again|time(?:d)? ?out|connection (?:refused|reset|timed|lost|dropped)|no route to host|network is unreachable|retry (?:time|timeout)|too old|expired|could not be delivered for|deferred|busy|loop|hop count/iu;

/** The rules in the order in which they are asked; RFC 3463 and the registry of RFC 5248 say what the codes mean. */
export const bounceRules = {
  'no-failure': { class: 'soft', status: /^2\..*$/ },
  '4.x.x': { class: 'soft', status: /^4\..*$/ },
  'reply-4xx': { class: 'soft', words: /^["\s]*4\d\d[ -]/ },
  'words-full': { class: 'soft', words: full },
  'words-sender': { class: 'policy', words: ofSender },
  'words-blocked': { class: 'policy', words: blocked },
  'words-preference': { class: 'policy', words: preference },
  'words-rate': { class: 'soft', words: rate },
  // Delivery's own words: a refusal behind DATA of a message with several recipients.
  'refused-together': { class: 'policy', words: /\bRefused for \d+ recipients at once: / },
  // What several servers say of an address that is in no directory of theirs.
  'recipient-access-denied': {
    class: 'hard',
    status: /^5\.4\.1$/,
    words: /recipient address rejected: access denied/i,
  },
  'mailbox-full': { class: 'soft', status: /^5\.2\.2$/ },
  'no-such-user': { class: 'hard', status: /^5\.1\.(?:1|3|6)$/ },
  'mailbox-disabled': { class: 'hard', status: /^5\.2\.1$/ },
  'no-mail-there': { class: 'hard', status: /^5\.1\.10$/ },
  'no-such-domain': { class: 'hard', status: /^5\.1\.2$/, needsSecond: true },
  'sender-refused': { class: 'policy', status: /^5\.1\.(?:7|8)$/ },
  'too-large': { class: 'policy', status: /^5\.(?:2\.3|3\.4)$/ },
  content: { class: 'policy', status: /^5\.6\.\d+$/ },
  'loop-or-expired': { class: 'soft', status: /^5\.4\.(?:6|7)$/ },
  'words-no-mail-there': { class: 'hard', words: noMailThere },
  'words-no-such-user': { class: 'hard', words: nobody },
  'security-or-policy': { class: 'policy', status: /^5\.7\.\d+$/ },
  'words-no-such-domain': { class: 'hard', words: noDomain, needsSecond: true },
  'words-policy': { class: 'policy', words: unwanted },
  'words-not-now': { class: 'soft', words: notNow },
} as const satisfies Record<string, BounceRule>;

/** The name of the rule that decided; `delayed` and `undecided` stand for no row. */
type BounceRuleName = keyof typeof bounceRules | 'delayed' | 'undecided';

/** What a failure means, and which rule says so. */
export interface Classified {
  readonly class: BounceClass;
  readonly rule: BounceRuleName;
}

/** Characters of the words that are looked at. */
const mostCharacters = 1000;

/** Addresses, and the server that a relay quotes: a name such as spam@example.com says nothing of the failure. */
const names = /[^\s<>()[\]"',;:=]{1,64}@[^\s<>()[\]"',;:]{1,255}|\bhost \S{1,300} said:/g;
/** Codes that say no more than later or never (RFC 3463 §3.1). */
const saysNothing = /^[45]\.(?:0\.0|5\.0|3\.0|1\.0|2\.0|4\.0)$/;
const inWords = /(?<![\d.])([45]\.\d{1,2}\.\d{1,3})(?![\d.]*\d)/;

function* rows(): Generator<readonly [BounceRuleName, BounceRule]> {
  let name: keyof typeof bounceRules;
  for (name in bounceRules) yield [name, bounceRules[name]];
}

/** The code that counts: the given one, or that in the words where the given one says nothing. */
function statusOf(status: string | undefined, words: string): string | undefined {
  if (status !== undefined && !saysNothing.test(status)) return status;
  const told = inWords.exec(words)?.[1];
  if (told !== undefined && !saysNothing.test(told)) return told;
  // A server that gives up after days says 4 in the code of the last attempt.
  return status?.startsWith('4') === true ? status : undefined;
}

interface DeliveryFailure {
  /** The enhanced status code (RFC 3463); undefined where there is none, or one that says nothing (`5.0.0`). */
  readonly status: string | undefined;
  /** The words of the server that refused, with its reply code. */
  readonly words: string;
}

/** Classifies a failure. Where no rule fits it is soft: what is not understood suppresses nobody. */
export function classify({ status, words }: DeliveryFailure): Classified {
  const text = words.slice(0, mostCharacters).replaceAll(names, '@');
  const code = statusOf(status, text);
  for (const [rule, row] of rows()) {
    if (row.status && (code === undefined || !row.status.test(code))) continue;
    if (row.words && !row.words.test(text)) continue;
    return { class: row.class, rule };
  }
  return { class: 'soft', rule: 'undecided' };
}

/** Whether a rule suppresses only when it decides again a day later. @param name as an event has it; one of another release is none */
export function needsSecond(name: string): boolean {
  return rows().some(([rule, row]) => rule === name && row.needsSecond === true);
}
