package main

import (
	"log"
	"log/slog"
)

// divertStandardLog redirects the standard logger to another logger at debug level:
// net/http uses the standard logger for up to 4 KB of data that a receiver sends on
// an idle connection.
func divertStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer())
}
