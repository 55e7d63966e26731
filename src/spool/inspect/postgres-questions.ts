// What a look at PostgreSQL asks. Every question reads catalogues, or a table by an index.

/** The server and its settings. */
export const serverQuestion = `SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,
    current_setting('synchronous_commit') AS synchronous_commit, current_setting('synchronous_standby_names') AS standby_names,
    current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
    current_setting('server_encoding') AS encoding, current_setting('max_connections')::integer AS max_connections,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    pg_database_size(current_database()) AS octets, extract(epoch FROM clock_timestamp()) * 1000 AS now,
    (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS transaction_age,
    (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS tls, quote_ident(current_user) AS asker,
    EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'pg_read_all_stats' AND pg_has_role(oid, 'USAGE')) AS sees_all`;

const isRange = "c.relispartition AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'";

/** Tables of the schema with their sizes; those of partitions count for their table, which are made in the order of their ranges. */
export const tablesQuestion = `SELECT parent.relname AS name, count(*) FILTER (WHERE ${isRange}) AS partitions,
    (array_agg(c.relname ORDER BY c.oid) FILTER (WHERE ${isRange}))[1] AS oldest,
    (array_agg(c.relname ORDER BY c.oid DESC) FILTER (WHERE ${isRange}))[1] AS newest,
    sum(greatest(c.reltuples, s.n_live_tup, 0)) FILTER (WHERE c.relispartition AND NOT (${isRange})) AS outside,
    sum(pg_total_relation_size(c.oid)) AS octets, sum(greatest(c.reltuples, 0))::bigint AS rows,
    sum(coalesce(s.n_dead_tup, 0)) AS dead, sum(coalesce(s.n_live_tup, 0)) AS live
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    JOIN pg_class parent ON parent.oid = coalesce(i.inhparent, c.oid) LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
  WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relkind IN ('r', 'p')
  GROUP BY parent.relname ORDER BY octets DESC`;

/** Who follows the server. Without the right to see it the columns are NULL. */
export const replicasQuestion = `SELECT application_name AS name, coalesce(state, '') AS state, sync_state,
    pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS lag FROM pg_stat_replication ORDER BY 1`;

/** Replication slots that nobody reads, and the octets of the log that the server keeps for them. */
export const slotsQuestion = `SELECT slot_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS octets
  FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 1`;

/** Transactions that have been open for long, and keep every table from being tidied up. */
export const openQuestion = `SELECT pid, coalesce(usename, '') AS who, coalesce(application_name, '') AS program,
    extract(epoch FROM clock_timestamp() - xact_start)::integer AS seconds
  FROM pg_stat_activity WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '10 minutes'
  ORDER BY xact_start LIMIT 10`;

/** What waits, what failed, and what is claimed. */
export const queueQuestion = `SELECT (SELECT coalesce(sum(queued_recipients), 0) FROM spool_counts) AS queued,
    (SELECT coalesce(sum(failed_messages), 0) FROM spool_counts) AS failed,
    (SELECT count(*) FROM spool_recipients WHERE claimed_by IS NOT NULL) AS claimed,
    (SELECT min(due_at) FROM spool_recipients WHERE claimed_by IS NOT NULL) AS claim_until,
    (SELECT min(ready_at) FROM spool_lines line WHERE NOT EXISTS (SELECT 1 FROM spool_holds h
      WHERE (h.kind = 'account' AND h.value = line.account)
        OR (h.kind = 'route' AND h.value = split_part(line.lane, '#', 1))
        OR (h.kind = 'destination' AND h.value = split_part(line.lane, '/', 2))
        OR (h.kind = 'line' AND h.value = line.account || ' ' || regexp_replace(line.lane, '#[^/]*', '')))) AS turn,
    (SELECT m.accepted_at FROM spool_recipients r JOIN spool_messages m ON m.id = r.message WHERE r.state = 0
      ORDER BY r.message LIMIT 1) AS accepted`;

/** The processes, how long each may be silent (null in tables of an earlier release), and what they have claimed. */
export const processesQuestion = `SELECT p.id, p.name, p.beats, (to_jsonb(p) ->> 'patience_ms')::integer AS patience_ms,
    (SELECT count(*) FROM spool_recipients r WHERE r.claimed_by = p.id) AS claims FROM spool_processes p ORDER BY p.id`;

/** Claims of processes that are not there, which the next gateway to look gives back. */
export const orphansQuestion = `SELECT count(*) AS claims FROM spool_recipients
  WHERE claimed_by IS NOT NULL AND claimed_by NOT IN (SELECT id FROM spool_processes)`;

/** The versions of tables. */
export const ownersQuestion = 'SELECT owner, version FROM migrations ORDER BY owner';

/** Which of our tables there are. */
export const presentQuestion =
  "SELECT to_regclass('migrations') IS NOT NULL AS migrated, to_regclass('spool_processes') IS NOT NULL AS spooled";
