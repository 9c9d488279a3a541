"""The tables of a run file, as a list of migrations: number n brings a file from version n-1 to version n.

A file carries its version in `user_version` and our mark in `application_id`, which tells a foreign file from an old
one. Never edit a migration that was released; append one.
"""

from __future__ import annotations

APPLICATION_ID = 0x52435054  # "RCPT"
READABLE = 3  # the first version whose files are read as is

MIGRATIONS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    -- Every text and blob once, under the SHA-256 of its bytes. codec: 0 as it is, 1 zlib, 2 zlib with others at hand.
    CREATE TABLE texts (hash BLOB NOT NULL UNIQUE, codec INTEGER NOT NULL, data BLOB NOT NULL);

    -- The journal: a reply is written here before it is used. message is a hash in texts.
    CREATE TABLE calls (
        unit TEXT NOT NULL, ordinal INTEGER NOT NULL,
        role TEXT NOT NULL, request BLOB NOT NULL, message BLOB NOT NULL,
        finish TEXT NOT NULL, model TEXT NOT NULL, configured TEXT NOT NULL,
        input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL, reasoning INTEGER NOT NULL,
        calls INTEGER NOT NULL, seconds REAL NOT NULL,
        PRIMARY KEY (unit, ordinal)
    ) WITHOUT ROWID;

    -- A unit of work that is finished. result is a hash in texts: the whole of what came out, without timings.
    CREATE TABLE units (name TEXT PRIMARY KEY, kind TEXT NOT NULL, result BLOB NOT NULL, seconds REAL NOT NULL);

    -- What queries and tables read of a trajectory; the whole of it is its unit's result.
    CREATE TABLE trajectories (
        unit TEXT PRIMARY KEY, phase TEXT NOT NULL, task TEXT NOT NULL, run INTEGER NOT NULL, groups TEXT NOT NULL,
        success INTEGER NOT NULL, value REAL NOT NULL, ending TEXT NOT NULL, steps INTEGER NOT NULL,
        compactions INTEGER NOT NULL, peak INTEGER NOT NULL, peak_reported INTEGER NOT NULL,
        usage TEXT NOT NULL, incidents INTEGER NOT NULL
    );

    CREATE TABLE boundaries (
        unit TEXT NOT NULL, idx INTEGER NOT NULL, step INTEGER NOT NULL,
        pre_tokens INTEGER NOT NULL, post_tokens INTEGER NOT NULL, document BLOB NOT NULL,
        PRIMARY KEY (unit, idx)
    ) WITHOUT ROWID;
    """,
    """
    -- One continuation from the boundary (unit, idx), under the name of its own unit, whose result is the whole of it.
    CREATE TABLE continuations (
        name TEXT PRIMARY KEY, unit TEXT NOT NULL, idx INTEGER NOT NULL, arm TEXT NOT NULL, draw INTEGER NOT NULL,
        success INTEGER NOT NULL, value REAL NOT NULL, ending TEXT NOT NULL, steps INTEGER NOT NULL,
        usage TEXT NOT NULL, error TEXT NOT NULL,
        UNIQUE (unit, idx, arm, draw)
    );
    """,
    """
    -- For how many of a row's calls our own count stands in for the server's, and what was changed about the reply.
    ALTER TABLE calls ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE calls ADD COLUMN notes TEXT NOT NULL DEFAULT '[]';

    -- What was paid for calls that are no longer in the journal. The phase is the first word of their units' names.
    CREATE TABLE dropped (
        phase TEXT NOT NULL, configured TEXT NOT NULL, role TEXT NOT NULL,
        input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL, reasoning INTEGER NOT NULL,
        calls INTEGER NOT NULL, estimated INTEGER NOT NULL,
        PRIMARY KEY (phase, configured, role)
    ) WITHOUT ROWID;

    -- Units that would fail again if they were played again.
    CREATE TABLE set_aside (unit TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    -- What was asked, as `requests` packs it; NULL where nobody kept it.
    ALTER TABLE calls ADD COLUMN asked BLOB;

    -- The largest effects among the boundaries of a trajectory, by the means of their draws, so that lists can be
    -- sorted by harm whatever the number of draws.
    CREATE TABLE harms (unit TEXT PRIMARY KEY, hazard REAL, burden REAL) WITHOUT ROWID;

    CREATE VIEW effects AS
    SELECT unit, idx,
        avg(CASE arm WHEN 'PRE' THEN value END) - avg(CASE arm WHEN 'POST' THEN value END) AS hazard,
        avg(CASE arm WHEN 'POST' THEN steps END) - avg(CASE arm WHEN 'PRE' THEN steps END) AS burden
    FROM continuations GROUP BY unit, idx;

    INSERT INTO harms SELECT unit, max(hazard), max(burden) FROM effects GROUP BY unit;

    CREATE TRIGGER continuation_added AFTER INSERT ON continuations BEGIN
        INSERT OR REPLACE INTO harms SELECT new.unit, max(hazard), max(burden) FROM effects WHERE unit = new.unit;
    END;

    CREATE TRIGGER continuation_removed AFTER DELETE ON continuations BEGIN
        INSERT OR REPLACE INTO harms SELECT old.unit, max(hazard), max(burden) FROM effects WHERE unit = old.unit;
    END;
    """,
    """
    -- The input of those of a row's calls for which the server said how much was cached. Until now nothing cached and
    -- nothing said looked alike: a model that ever had something cached is taken to have said so every time.
    ALTER TABLE calls ADD COLUMN cache_reported INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE dropped ADD COLUMN cache_reported INTEGER NOT NULL DEFAULT 0;
    UPDATE calls SET cache_reported = input WHERE estimated = 0 AND configured IN (
        SELECT configured FROM calls WHERE cached > 0 UNION SELECT configured FROM dropped WHERE cached > 0
    );
    UPDATE dropped SET cache_reported = input WHERE estimated = 0 AND configured IN (
        SELECT configured FROM calls WHERE cached > 0 UNION SELECT configured FROM dropped WHERE cached > 0
    );
    """,
)

_REPORTED = """CASE WHEN estimated = 0 AND configured IN (
    SELECT configured FROM main.calls WHERE cached > 0 UNION SELECT configured FROM main.dropped WHERE cached > 0
) THEN input ELSE 0 END AS cache_reported"""
AS_NEWEST = f"""
    CREATE TEMP VIEW calls AS SELECT *, {_REPORTED} FROM main.calls;
    CREATE TEMP VIEW dropped AS SELECT *, {_REPORTED} FROM main.dropped;
"""
"""What a reader sees of a file that is read as it is: columns that are asked for everywhere, as the last migration
fills them. The columns and tables that came before it are asked for only where they exist."""
