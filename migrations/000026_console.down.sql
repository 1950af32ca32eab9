DROP TABLE eventhook.traffic;
