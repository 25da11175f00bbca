-- The tables of a ledger. SQLite and PostgreSQL both accept the statements.
-- A migration is applied once to each store, so do not change one that was released: add another.

-- migration 1
CREATE TABLE envelopes (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL,
    opened BIGINT NOT NULL, archived BIGINT);
CREATE TABLE events (
    envelope TEXT NOT NULL, sequence BIGINT NOT NULL, type TEXT NOT NULL,
    time BIGINT NOT NULL, cause TEXT, payload TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (envelope, sequence));
CREATE INDEX events_by_time ON events (time);
CREATE TABLE checkpoints (
    envelope TEXT NOT NULL, sequence BIGINT NOT NULL, hash TEXT NOT NULL,
    time BIGINT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL,
    PRIMARY KEY (envelope, sequence, key_id));
CREATE TABLE signers (root TEXT PRIMARY KEY, keys TEXT NOT NULL);
CREATE TABLE attributions (
    id BIGINT PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL,
    capability TEXT NOT NULL, worker TEXT NOT NULL, role TEXT NOT NULL,
    intent TEXT NOT NULL, function TEXT NOT NULL, workforce TEXT NOT NULL);
CREATE TABLE costs (
    envelope TEXT NOT NULL, sequence BIGINT NOT NULL, part BIGINT NOT NULL,
    corrects TEXT, time BIGINT NOT NULL, attribution BIGINT NOT NULL,
    currency TEXT NOT NULL, estimate SMALLINT NOT NULL, records BIGINT NOT NULL,
    money BIGINT NOT NULL, tokens_input BIGINT NOT NULL, tokens_output BIGINT NOT NULL,
    tokens_reasoning BIGINT NOT NULL, tokens_cache_read BIGINT NOT NULL,
    tokens_cache_write BIGINT NOT NULL, duration BIGINT NOT NULL, pieces BIGINT NOT NULL,
    PRIMARY KEY (envelope, sequence, part));
CREATE INDEX costs_corrected ON costs (corrects) WHERE corrects IS NOT NULL;
CREATE TABLE cost_hours (
    hour BIGINT NOT NULL, attribution BIGINT NOT NULL, currency TEXT NOT NULL,
    estimate SMALLINT NOT NULL, writer TEXT NOT NULL, records BIGINT NOT NULL,
    money BIGINT NOT NULL, tokens_input BIGINT NOT NULL, tokens_output BIGINT NOT NULL,
    tokens_reasoning BIGINT NOT NULL, tokens_cache_read BIGINT NOT NULL,
    tokens_cache_write BIGINT NOT NULL, duration BIGINT NOT NULL, pieces BIGINT NOT NULL,
    PRIMARY KEY (hour, attribution, currency, estimate, writer));
CREATE INDEX costs_by_time ON costs (time);

-- migration 2
CREATE TABLE providers (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, state TEXT NOT NULL,
    identity TEXT NOT NULL, registration TEXT NOT NULL, event TEXT NOT NULL,
    registered BIGINT NOT NULL, deregistered BIGINT);
CREATE TABLE invocations (
    id TEXT PRIMARY KEY, provider TEXT NOT NULL, capability TEXT NOT NULL,
    semantics TEXT NOT NULL, state TEXT NOT NULL, idempotency_key TEXT,
    envelope TEXT NOT NULL, event TEXT NOT NULL, settled_by TEXT, owner TEXT NOT NULL,
    input TEXT NOT NULL, output TEXT, error TEXT, attribution TEXT NOT NULL,
    partials BIGINT NOT NULL, created BIGINT NOT NULL, deadline BIGINT, settled BIGINT,
    acknowledged BIGINT, answered BIGINT, remind_at BIGINT, remind_every BIGINT,
    reminders BIGINT NOT NULL);
CREATE UNIQUE INDEX invocations_once ON invocations (provider, idempotency_key);
CREATE INDEX invocations_open ON invocations (state, provider);
CREATE INDEX invocations_due ON invocations (deadline) WHERE state = 'open';
CREATE INDEX invocations_newest ON invocations (created);
CREATE TABLE partials (
    invocation TEXT NOT NULL, number BIGINT NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (invocation, number));
CREATE TABLE signals (
    source TEXT NOT NULL, id TEXT NOT NULL, number BIGINT NOT NULL, event TEXT NOT NULL,
    type TEXT NOT NULL, content TEXT NOT NULL, emitted BIGINT NOT NULL,
    received BIGINT NOT NULL, PRIMARY KEY (source, id));
CREATE UNIQUE INDEX signals_in_order ON signals (source, number);

-- migration 3
CREATE TABLE evidence (
    provider TEXT NOT NULL, model TEXT NOT NULL, capability TEXT NOT NULL,
    support TEXT NOT NULL, value TEXT, origin TEXT NOT NULL, detail TEXT NOT NULL,
    transcript TEXT NOT NULL, observed BIGINT NOT NULL, event TEXT NOT NULL,
    PRIMARY KEY (provider, model, capability));
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, envelope TEXT NOT NULL, state TEXT NOT NULL,
    event TEXT NOT NULL, revision BIGINT NOT NULL,
    created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE INDEX sessions_newest ON sessions (updated);
CREATE TABLE session_messages (
    session TEXT NOT NULL, number BIGINT NOT NULL, turn BIGINT NOT NULL,
    answered SMALLINT NOT NULL, message TEXT NOT NULL, PRIMARY KEY (session, number));
CREATE TABLE runs (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, status TEXT NOT NULL,
    request TEXT NOT NULL, error TEXT, owner TEXT NOT NULL, tenant TEXT NOT NULL,
    created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE TABLE client_keys (
    id TEXT PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL, settings TEXT NOT NULL,
    created BIGINT NOT NULL, revoked BIGINT);
CREATE UNIQUE INDEX client_keys_digest ON client_keys (digest);
CREATE INDEX runs_unfinished ON runs (owner) WHERE status IN ('pending', 'running');

-- migration 4
ALTER TABLE invocations ADD COLUMN registered TEXT NOT NULL DEFAULT '';
