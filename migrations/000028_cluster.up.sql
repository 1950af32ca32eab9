-- Rate limits of sources over all instances.

-- per_second is the number of requests per second that a source sends to an instance, as it was at the
-- time "at". The row of an instance with source_id zero says that it takes part. Instances replace
-- their rows each second and read those of the last seconds; the table may be lost at any time.
CREATE UNLOGGED TABLE eventhook.rate_demand (
    source_id   uuid NOT NULL,
    instance_id uuid NOT NULL,
    per_second  float4 NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (source_id, instance_id)
) WITH (fillfactor = 50);
