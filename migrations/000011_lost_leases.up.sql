-- lost_leases counts the leases of an event in a row that ended without
-- anything being written under them, as when the instance that held one was
-- killed. A settle sets it back to 0; a lease that is given back does not count.
-- A former version leaves it as it is.
ALTER TABLE eventhook.event ADD COLUMN lost_leases integer NOT NULL DEFAULT 0;
