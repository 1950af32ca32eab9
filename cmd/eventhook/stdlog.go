package main

import (
	"log"
	"log/slog"
)

// divertStandardLog redirects the standard logger to another logger at debug level.
// net/http logs up to 4 KB that a receiver sends on an idle connection there.
func divertStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer())
}
