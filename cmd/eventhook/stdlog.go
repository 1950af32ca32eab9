package main

import (
	"log"
	"log/slog"
)

// divertStandardLog sends the standard logger to another one at debug level. net/http
// writes there what a receiver sends on an idle connection, up to 4 KB at a time.
func divertStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer())
}
