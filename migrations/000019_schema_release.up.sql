-- The release that the schema belongs to. Instances of the release before work on it, too, so
-- they stay ready while a rolling upgrade replaces them. migrations.Up writes the row.
--   newest    the newest migration of the release
--   previous  the newest migration of the release before
CREATE TABLE eventhook.schema_release (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    newest      bigint NOT NULL,
    previous    bigint NOT NULL
);
