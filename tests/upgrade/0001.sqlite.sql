BEGIN;
CREATE TABLE byref_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT byref_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> 0001
CREATE TABLE byref_sessions (
    id INTEGER NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    name VARCHAR(512) NOT NULL,
    model TEXT,
    context_window BIGINT,
    policy TEXT,
    tools TEXT,
    next_step BIGINT DEFAULT 1 NOT NULL,
    context_base BIGINT DEFAULT 0 NOT NULL,
    base_output_tokens BIGINT,
    pending_after BIGINT DEFAULT 0 NOT NULL,
    pending_tokens BIGINT DEFAULT 0 NOT NULL,
    calibration_reported BIGINT DEFAULT 2000 NOT NULL,
    calibration_estimated BIGINT DEFAULT 2000 NOT NULL,
    created_at DATETIME NOT NULL,
    ended_at DATETIME,
    ledger_seconds DOUBLE,
    expires_at DATETIME,
    CONSTRAINT pk_byref_sessions PRIMARY KEY (id),
    CONSTRAINT uq_byref_sessions_tenant_name UNIQUE (tenant, name),
    CONSTRAINT uq_byref_sessions_tenant_id UNIQUE (tenant, id),
    CONSTRAINT ck_byref_sessions_next_step CHECK (next_step >= 1),
    CONSTRAINT ck_byref_sessions_context CHECK (context_base >= 0 AND pending_tokens >= 0 AND pending_after >= 0),
    CONSTRAINT ck_byref_sessions_base_output CHECK (base_output_tokens IS NULL OR base_output_tokens >= 0),
    CONSTRAINT ck_byref_sessions_calibration CHECK (calibration_reported > 0 AND calibration_estimated > 0),
    CONSTRAINT ck_byref_sessions_context_window CHECK (context_window IS NULL OR context_window > 0),
    CONSTRAINT ck_byref_sessions_ledger_seconds CHECK (ledger_seconds IS NULL OR ledger_seconds > 0)
);
CREATE INDEX ix_byref_sessions_expires_at ON byref_sessions (expires_at);
CREATE TABLE byref_blobs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant VARCHAR(512) NOT NULL,
    "key" VARCHAR(80) NOT NULL,
    store VARCHAR(20),
    digest BLOB NOT NULL,
    size_bytes BIGINT NOT NULL,
    line_count BIGINT NOT NULL,
    staged_at DATETIME NOT NULL,
    published_at DATETIME,
    CONSTRAINT uq_byref_blobs_key UNIQUE ("key"),
    CONSTRAINT uq_byref_blobs_tenant_id UNIQUE (tenant, id),
    CONSTRAINT ck_byref_blobs_sizes CHECK (size_bytes >= 0 AND line_count >= 0)
);
CREATE UNIQUE INDEX uq_byref_blobs_published ON byref_blobs (tenant, digest) WHERE published_at IS NOT NULL;
CREATE INDEX ix_byref_blobs_staged_at ON byref_blobs (staged_at);
CREATE TABLE byref_frames (
    blob_id BIGINT NOT NULL,
    number INTEGER NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    byte_offset BIGINT NOT NULL,
    first_line BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    codec VARCHAR(8) NOT NULL,
    data BLOB,
    object_offset BIGINT,
    object_bytes BIGINT,
    CONSTRAINT pk_byref_frames PRIMARY KEY (blob_id, number),
    CONSTRAINT fk_byref_frames_tenant_blob_id FOREIGN KEY(tenant, blob_id) REFERENCES byref_blobs (tenant, id) ON DELETE CASCADE,
    CONSTRAINT ck_byref_frames_place CHECK (number >= 0 AND byte_offset >= 0 AND first_line >= 1 AND size_bytes > 0),
    CONSTRAINT ck_byref_frames_codec CHECK (codec IN ('zstd', 'none')),
    CONSTRAINT ck_byref_frames_data CHECK ((data IS NULL) = (object_offset IS NOT NULL) AND (object_offset IS NULL) = (object_bytes IS NULL))
);
CREATE INDEX ix_byref_frames_first_line ON byref_frames (blob_id, first_line, number);
CREATE TABLE byref_discards (
    id INTEGER NOT NULL,
    store VARCHAR(20) NOT NULL,
    "key" VARCHAR(80) NOT NULL,
    CONSTRAINT pk_byref_discards PRIMARY KEY (id),
    CONSTRAINT uq_byref_discards_store_key UNIQUE (store, "key")
);
CREATE TABLE byref_artifacts (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    public_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    step BIGINT,
    blob_id BIGINT NOT NULL,
    origin VARCHAR(8) NOT NULL,
    kind VARCHAR(8) NOT NULL,
    content_type VARCHAR(255) NOT NULL,
    name TEXT,
    size_bytes BIGINT NOT NULL,
    preview TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    shape TEXT NOT NULL,
    json_schema BLOB,
    created_at DATETIME NOT NULL,
    ttl_seconds DOUBLE,
    expires_at DATETIME,
    kept BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT fk_byref_artifacts_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT fk_byref_artifacts_tenant_blob_id FOREIGN KEY(tenant, blob_id) REFERENCES byref_blobs (tenant, id) ON DELETE RESTRICT,
    CONSTRAINT uq_byref_artifacts_public_id UNIQUE (public_id),
    CONSTRAINT uq_byref_artifacts_session_id_id UNIQUE (session_id, id),
    CONSTRAINT ck_byref_artifacts_kind CHECK (kind IN ('json', 'text', 'image', 'document')),
    CONSTRAINT ck_byref_artifacts_origin CHECK (origin IN ('output', 'run', 'model', 'host')),
    CONSTRAINT ck_byref_artifacts_ttl CHECK ((ttl_seconds IS NULL) = (expires_at IS NULL) AND ttl_seconds > 0),
    CONSTRAINT ck_byref_artifacts_kept CHECK (NOT kept OR expires_at IS NULL)
);
CREATE INDEX ix_byref_artifacts_session_name ON byref_artifacts (session_id, name);
CREATE INDEX ix_byref_artifacts_session_blob ON byref_artifacts (session_id, blob_id, expires_at);
CREATE INDEX ix_byref_artifacts_blob_id ON byref_artifacts (blob_id);
CREATE INDEX ix_byref_artifacts_expires_at ON byref_artifacts (expires_at);
CREATE TABLE byref_variables (
    id INTEGER NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    artifact_id BIGINT NOT NULL,
    path TEXT NOT NULL,
    shape TEXT NOT NULL,
    origin VARCHAR(8) NOT NULL,
    kind VARCHAR(16) DEFAULT 'value' NOT NULL,
    step BIGINT NOT NULL,
    revision INTEGER DEFAULT 1 NOT NULL,
    CONSTRAINT pk_byref_variables PRIMARY KEY (id),
    CONSTRAINT fk_byref_variables_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT fk_byref_variables_session_id_artifact_id FOREIGN KEY(session_id, artifact_id) REFERENCES byref_artifacts (session_id, id) ON DELETE CASCADE,
    CONSTRAINT uq_byref_variables_session_id_name UNIQUE (session_id, name),
    CONSTRAINT ck_byref_variables_origin CHECK (origin IN ('output', 'run', 'host')),
    CONSTRAINT ck_byref_variables_kind CHECK (kind IN ('value', 'dataframe')),
    CONSTRAINT ck_byref_variables_revision CHECK (revision >= 1)
);
CREATE INDEX ix_byref_variables_artifact_id ON byref_variables (artifact_id);
CREATE TABLE byref_names (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    kind VARCHAR(8) NOT NULL,
    artifact_id BIGINT,
    digest BLOB NOT NULL,
    size_bytes BIGINT NOT NULL,
    data BLOB NOT NULL,
    step BIGINT NOT NULL,
    CONSTRAINT fk_byref_names_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT fk_byref_names_session_id_artifact_id FOREIGN KEY(session_id, artifact_id) REFERENCES byref_artifacts (session_id, id) ON DELETE CASCADE,
    CONSTRAINT uq_byref_names_session_id_name UNIQUE (session_id, name),
    CONSTRAINT ck_byref_names_kind CHECK (kind IN ('exact', 'source')),
    CONSTRAINT ck_byref_names_artifact CHECK ((kind = 'exact') = (artifact_id IS NOT NULL)),
    CONSTRAINT ck_byref_names_size CHECK (size_bytes >= 0)
);
CREATE INDEX ix_byref_names_artifact_id ON byref_names (artifact_id);
CREATE TABLE byref_ledger (
    id INTEGER NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    step BIGINT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    tool TEXT,
    call_id TEXT,
    call_digest BLOB,
    content_digest BLOB,
    arguments TEXT,
    route VARCHAR(16),
    reason VARCHAR(32),
    content TEXT,
    tokens BIGINT NOT NULL,
    original_tokens BIGINT,
    original_bytes BIGINT,
    artifact_id INTEGER,
    is_error BOOLEAN DEFAULT 0 NOT NULL,
    model TEXT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    cost_nanos BIGINT,
    detail TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_byref_ledger PRIMARY KEY (id),
    CONSTRAINT fk_byref_ledger_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT fk_byref_ledger_artifact_id FOREIGN KEY(artifact_id) REFERENCES byref_artifacts (id) ON DELETE SET NULL,
    CONSTRAINT uq_byref_ledger_session_id_step UNIQUE (session_id, step),
    CONSTRAINT ck_byref_ledger_step CHECK (step >= 1),
    CONSTRAINT ck_byref_ledger_kind CHECK (kind IN ('output', 'reply', 'usage', 'compaction', 'resolution')),
    CONSTRAINT ck_byref_ledger_route CHECK (route IS NULL OR route IN ('inline', 'variables', 'artifact', 'truncate', 'wholesale', 'placeholder')),
    CONSTRAINT ck_byref_ledger_output CHECK (CASE WHEN kind = 'output' THEN route IS NOT NULL AND reason IS NOT NULL AND original_tokens IS NOT NULL ELSE route IS NULL AND reason IS NULL END),
    CONSTRAINT ck_byref_ledger_content CHECK (CASE WHEN kind IN ('output', 'reply') THEN tool IS NOT NULL AND content IS NOT NULL AND content_digest IS NOT NULL ELSE tool IS NULL AND content IS NULL AND content_digest IS NULL END),
    CONSTRAINT ck_byref_ledger_tokens CHECK (tokens >= 0)
);
CREATE UNIQUE INDEX uq_byref_ledger_output ON byref_ledger (session_id, call_digest, content_digest) WHERE kind = 'output' AND call_digest IS NOT NULL;
CREATE UNIQUE INDEX uq_byref_ledger_usage ON byref_ledger (session_id, call_digest) WHERE kind = 'usage' AND call_digest IS NOT NULL;
CREATE INDEX ix_byref_ledger_content ON byref_ledger (session_id, content_digest);
CREATE INDEX ix_byref_ledger_artifact_id ON byref_ledger (artifact_id);
CREATE TABLE byref_runs (
    id INTEGER NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    step BIGINT,
    language VARCHAR(8) NOT NULL,
    code TEXT NOT NULL,
    result TEXT,
    stdout TEXT NOT NULL,
    error TEXT,
    wall_ms DOUBLE NOT NULL,
    cpu_ms DOUBLE NOT NULL,
    peak_bytes BIGINT NOT NULL,
    limits TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_byref_runs PRIMARY KEY (id),
    CONSTRAINT fk_byref_runs_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT uq_byref_runs_session_id_step UNIQUE (session_id, step),
    CONSTRAINT ck_byref_runs_language CHECK (language IN ('python', 'jq', 'sql'))
);
CREATE TABLE byref_tombstones (
    id INTEGER NOT NULL,
    public_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    step BIGINT,
    origin VARCHAR(8) NOT NULL,
    content_type VARCHAR(255) NOT NULL,
    size_bytes BIGINT NOT NULL,
    name TEXT,
    variables TEXT NOT NULL,
    tool TEXT,
    arguments TEXT,
    shape TEXT NOT NULL,
    expired_at DATETIME NOT NULL,
    CONSTRAINT pk_byref_tombstones PRIMARY KEY (id),
    CONSTRAINT fk_byref_tombstones_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT uq_byref_tombstones_public_id UNIQUE (public_id),
    CONSTRAINT ck_byref_tombstones_origin CHECK (origin IN ('output', 'run', 'model', 'host'))
);
CREATE INDEX ix_byref_tombstones_session_id ON byref_tombstones (session_id);
CREATE INDEX ix_byref_tombstones_expired_at ON byref_tombstones (expired_at);
CREATE TABLE byref_items (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant VARCHAR(512) NOT NULL,
    session_id BIGINT NOT NULL,
    list VARCHAR(512) NOT NULL,
    number BIGINT NOT NULL,
    text TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT fk_byref_items_tenant_session_id FOREIGN KEY(tenant, session_id) REFERENCES byref_sessions (tenant, id) ON DELETE CASCADE,
    CONSTRAINT uq_byref_items_session_id_list_number UNIQUE (session_id, list, number),
    CONSTRAINT ck_byref_items_number CHECK (number >= 0)
);
INSERT INTO byref_version (version_num) VALUES ('0001') RETURNING version_num;
COMMIT;
