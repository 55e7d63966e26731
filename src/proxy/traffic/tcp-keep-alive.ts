// When the system asks a silent TCP peer whether it is still there (RFC 9293 §3.8.4).

/** Milliseconds of silence before the first probe, towards clients and origins. */
export const keepAliveMs = 60_000;
