-- How secrets are sealed in this database, and the canary: a sealed constant by which an
-- instance checks whether its keys belong to this database. The canary is bound to the
-- mode. The first instance writes the canary.
--   unbound     values are sealed in a way that earlier versions can read
--   bound       new values are bound to their place; unbound values still open
--   bound_only  unbound values are refused
-- A database that this version created begins with bound_only; see migrations.Up.
CREATE TABLE eventhook.sealing (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    mode        text NOT NULL CHECK (mode IN ('unbound', 'bound', 'bound_only')),
    canary      text
);
INSERT INTO eventhook.sealing (mode) VALUES ('unbound');
