package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// settings are the flags that select or override the configuration.
type settings struct {
	file  string
	flags map[string]settingFlag // by name
}

// settingFlag is a flag that overrides a key of the configuration.
type settingFlag struct {
	key   string
	value *string
}

// configFlags are the flags that override keys of the configuration file and
// environment variables.
var configFlags = []struct{ flag, key, usage string }{
	{"database-url", "database_url", "PostgreSQL URL; a private PostgreSQL is run by default"},
	{"data-dir", "data_dir", "folder of the private PostgreSQL and the generated keys"},
	{"listen", "listen", "address of webhooks and API"},
	{"management-listen", "management_listen", "address of health and metrics"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "text or json"},
}

// addSettings defines the flags of the configuration.
func addSettings(cmd *cobra.Command) *settings {
	s := &settings{flags: map[string]settingFlag{}}
	cmd.Flags().StringVar(&s.file, "config", os.Getenv("EVENTHOOK_CONFIG"), "configuration file (YAML)")
	for _, f := range configFlags {
		s.add(cmd, f.flag, f.key, f.usage)
	}
	return s
}

// add defines a flag that overrides a key.
func (s *settings) add(cmd *cobra.Command, name, key, usage string) {
	s.flags[name] = settingFlag{key, cmd.Flags().String(name, "", usage)}
}

// names returns the names of the flags but --config.
func (s *settings) names() (names []string) {
	for _, f := range configFlags {
		names = append(names, f.flag)
	}
	return names
}

// load reads the configuration and creates the logger that it describes.
func (s *settings) load(cmd *cobra.Command) (configs.Config, *slog.Logger, error) {
	over := map[string]string{}
	for name, f := range s.flags {
		if cmd.Flags().Changed(name) {
			over[f.key] = *f.value
		}
	}
	return loadConfig(configs.Sources{File: s.file, Environ: os.Environ(), Flags: over}, cmd.ErrOrStderr())
}

func loadConfig(from configs.Sources, stderr io.Writer) (configs.Config, *slog.Logger, error) {
	c, err := configs.Load(from)
	if err != nil {
		return c, nil, err
	}
	return c, telemetry.NewLogger(stderr, c.Log.Level, c.Log.Format), nil
}
