DROP TABLE eventhook.sealing;
