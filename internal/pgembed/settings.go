package pgembed

import (
	"maps"
	"slices"
)

// defaults are for many small, durable writes on a machine that also runs the gateway. Every
// version of PostgreSQL since 14 has these settings.
var defaults = []string{
	// A committed transaction is on disk and survives any crash.
	"fsync=on",
	"full_page_writes=on",
	"synchronous_commit=on",

	// Memory for the frequently used part of the tables; small enough for a laptop.
	"shared_buffers=256MB",
	"max_connections=100",
	"wal_buffers=16MB",

	// Infrequent, spread checkpoints: fewer full pages in the write-ahead log.
	"max_wal_size=4GB",
	"checkpoint_timeout=15min",
	"checkpoint_completion_target=0.9",
	// New segments of the write-ahead log are not filled with zeros first. Under load,
	// commits would wait about 50 ms for that, several times a second.
	"wal_init_zero=off",

	// The statements are short and use indexes: random reads cost little, and compilation
	// does not pay off.
	"random_page_cost=1.1",
	"jit=off",

	// Queue tables are updated constantly and need frequent vacuums.
	"autovacuum=on",
	"autovacuum_naptime=15s",
	"autovacuum_vacuum_scale_factor=0.05",
	"autovacuum_analyze_scale_factor=0.05",

	"timezone=UTC",
	"log_timezone=UTC",
	// DETAIL lines would contain rows, and with them the data of users.
	"log_error_verbosity=terse",
	"log_checkpoints=off",
}

// arguments returns the postmaster's command line. Later settings override earlier ones: the
// defaults, then Options.Settings, then the settings that keep the server private.
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
