-- How secrets are sealed in this database, and the canary: a sealed constant
-- that tells an instance whether its keys are those of this database. The
-- canary is bound to the mode. The first instance writes the canary.
--   unbound     values are sealed as former versions do, which can read them
--   bound       new values are bound to their place; unbound values still open
--   bound_only  unbound values are refused
-- A database that this version created begins with bound_only; see migrations.Up.
CREATE TABLE eventhook.sealing (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    mode        text NOT NULL CHECK (mode IN ('unbound', 'bound', 'bound_only')),
    canary      text
);
INSERT INTO eventhook.sealing (mode) VALUES ('unbound');
