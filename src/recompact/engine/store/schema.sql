-- Every row but those of texts has a checksum of its other values: see `checksums`.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;

-- Every text and blob once, under the SHA-256 of its bytes. codec: 0 as it is, 1 zlib, 2 zlib with others at hand.
CREATE TABLE texts (hash BLOB NOT NULL UNIQUE, codec INTEGER NOT NULL, data BLOB NOT NULL);

-- The journal: a reply is written here before it is used. message is a hash in texts, asked what was asked as
-- `packing` packs it (NULL where nobody kept it), notes what was changed about the reply. estimated is the number
-- of a row's calls for which our own count stands in for the server's, cache_reported the input of those for which
-- the server reported how much was cached.
CREATE TABLE calls (
    unit TEXT NOT NULL, ordinal INTEGER NOT NULL,
    role TEXT NOT NULL, request BLOB NOT NULL, message BLOB NOT NULL,
    finish TEXT NOT NULL, model TEXT NOT NULL, configured TEXT NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL, reasoning INTEGER NOT NULL,
    calls INTEGER NOT NULL, seconds REAL NOT NULL, estimated INTEGER NOT NULL, notes TEXT NOT NULL, asked BLOB,
    cache_reported INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (unit, ordinal)
) WITHOUT ROWID;

-- What was paid for calls that are no longer in the journal. The phase is the first word of their units' names.
CREATE TABLE dropped (
    phase TEXT NOT NULL, configured TEXT NOT NULL, role TEXT NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL, reasoning INTEGER NOT NULL,
    calls INTEGER NOT NULL, estimated INTEGER NOT NULL, cache_reported INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (phase, configured, role)
) WITHOUT ROWID;

-- A unit of work that is finished. result is a hash in texts: the whole of what came out, without timings.
CREATE TABLE units (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, result BLOB NOT NULL, seconds REAL NOT NULL,
    checksum INTEGER NOT NULL
);

-- Units that would fail again if they were played again.
CREATE TABLE set_aside (unit TEXT PRIMARY KEY, reason TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;

-- What queries and tables read of a trajectory; the whole of it is its unit's result.
CREATE TABLE trajectories (
    unit TEXT PRIMARY KEY, phase TEXT NOT NULL, task TEXT NOT NULL, run INTEGER NOT NULL, groups TEXT NOT NULL,
    success INTEGER NOT NULL, value REAL NOT NULL, ending TEXT NOT NULL, steps INTEGER NOT NULL,
    compactions INTEGER NOT NULL, peak INTEGER NOT NULL, peak_reported INTEGER NOT NULL,
    usage TEXT NOT NULL, incidents INTEGER NOT NULL, checksum INTEGER NOT NULL
);

CREATE TABLE boundaries (
    unit TEXT NOT NULL, idx INTEGER NOT NULL, step INTEGER NOT NULL,
    pre_tokens INTEGER NOT NULL, post_tokens INTEGER NOT NULL, document BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (unit, idx)
) WITHOUT ROWID;

-- One continuation from the boundary (unit, idx), under the name of its own unit, whose result is the whole of it.
CREATE TABLE continuations (
    name TEXT PRIMARY KEY, unit TEXT NOT NULL, idx INTEGER NOT NULL, arm TEXT NOT NULL, draw INTEGER NOT NULL,
    success INTEGER NOT NULL, value REAL NOT NULL, ending TEXT NOT NULL, steps INTEGER NOT NULL,
    usage TEXT NOT NULL, error TEXT NOT NULL, checksum INTEGER NOT NULL,
    UNIQUE (unit, idx, arm, draw)
);

-- What a verification decided about each boundary. settings is a hash of what it was decided by, records a digest
-- of what it rests on: where either differs, a row says nothing. place is its rank by harm, from 0; pre and post
-- are the draws ([number, reward, steps, tokens]), and the numbers are NULL where an arm has none.
CREATE TABLE verdicts (
    settings BLOB NOT NULL, unit TEXT NOT NULL, idx INTEGER NOT NULL, records BLOB NOT NULL, place INTEGER NOT NULL,
    reason TEXT NOT NULL, left_out TEXT NOT NULL, pre TEXT NOT NULL, post TEXT NOT NULL,
    H REAL, H_low REAL, H_high REAL, B REAL, B_low REAL, B_high REAL,
    p_harmful REAL, score REAL, channel TEXT, pre_draws INTEGER, post_draws INTEGER, H_variance REAL,
    confirmed TEXT, resampled TEXT,
    wordings INTEGER NOT NULL, copies INTEGER NOT NULL, copied_summaries INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (settings, unit, idx)
) WITHOUT ROWID;
