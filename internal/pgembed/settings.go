package pgembed

import (
	"maps"
	"slices"
)

// defaults suit many small, durable writes on a machine shared with the
// gateway. Each exists in every PostgreSQL since 14.
var defaults = []string{
	// A commit that was answered is on disk, whatever happens next.
	"fsync=on",
	"full_page_writes=on",
	"synchronous_commit=on",

	// Memory: the hot part of the tables; modest enough for a laptop.
	"shared_buffers=256MB",
	"max_connections=100",
	"wal_buffers=16MB",

	// Rare, gentle checkpoints: fewer full pages in the log.
	"max_wal_size=4GB",
	"checkpoint_timeout=15min",
	"checkpoint_completion_target=0.9",
	// A new piece of the log is not filled with zeros first: commits would wait
	// some 50 ms for that, several times a second under load.
	"wal_init_zero=off",

	// Short indexed statements: random reads are cheap, compiling is not.
	"random_page_cost=1.1",
	"jit=off",

	// Queue tables are updated all the time: tidy up early.
	"autovacuum=on",
	"autovacuum_naptime=15s",
	"autovacuum_vacuum_scale_factor=0.05",
	"autovacuum_analyze_scale_factor=0.05",

	"timezone=UTC",
	"log_timezone=UTC",
	// DETAIL lines would show rows, and with them what users sent.
	"log_error_verbosity=terse",
	"log_checkpoints=off",
}

// arguments returns the postmaster's command line: ours, the user's, and last
// what keeps the server private.
func (s *Server) arguments() []string {
	args := []string{"-D", s.place.cluster}
	set := func(setting string) { args = append(args, "-c", setting) }
	for _, d := range defaults {
		set(d)
	}
	for _, name := range slices.Sorted(maps.Keys(s.opts.Settings)) {
		set(name + "=" + s.opts.Settings[name])
	}
	set("listen_addresses=")
	set("port=" + port)
	set("unix_socket_directories=" + quoteList(s.place.sockets))
	set("unix_socket_permissions=0700")
	set("logging_collector=off")
	return args
}
