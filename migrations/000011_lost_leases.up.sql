-- lost_leases counts consecutive leases of an event that ended without a result, for
-- example because the instance was killed. Settling the event resets it to 0. A released
-- lease does not count. Earlier versions do not change the column.
ALTER TABLE eventhook.event ADD COLUMN lost_leases integer NOT NULL DEFAULT 0;
