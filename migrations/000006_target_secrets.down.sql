ALTER TABLE eventhook.route DROP COLUMN target_secrets;
