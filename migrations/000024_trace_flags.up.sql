-- trace_flags are the flags of the traceparent that led to an execution (W3C Trace Context, section
-- 3.2.2.5), with which a worker continues the trace. NULL stands for 01, sampled, also for the rows
-- of instances with an earlier version.
SET LOCAL lock_timeout = '10s';
ALTER TABLE eventhook.execution ADD COLUMN trace_flags text;
