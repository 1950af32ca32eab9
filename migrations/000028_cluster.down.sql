DROP TABLE eventhook.rate_demand;
