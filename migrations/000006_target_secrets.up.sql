-- The secrets of a route's targets, such as the auth_header of an http target: one sealed
-- text for all, NULL if there are none. targets contains no secrets.
ALTER TABLE eventhook.route ADD COLUMN target_secrets text;
