ALTER TABLE eventhook.event DROP COLUMN lost_leases;
