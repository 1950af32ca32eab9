-- The secrets of a route's targets, such as the auth_header of one that calls a
-- URL: one sealed text for them all, NULL without any. targets holds none.
ALTER TABLE eventhook.route ADD COLUMN target_secrets text;
