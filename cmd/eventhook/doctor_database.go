package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/migrations"
)

// checkDatabase checks the database, the keys and the partitions.
func (d *doctor) checkDatabase(ctx context.Context) {
	const check = "database"
	url, err := d.databaseURL()
	switch {
	case err != nil:
		d.fail(check, err.Error(), "Check the folder EVENTHOOK_DATA_DIR and its owner.")
		return
	case url == "":
		d.skip(check, "the private PostgreSQL does not run; run doctor again while the gateway runs")
		return
	}
	found, err := pg.Diagnose(ctx, url, d.now, partitionsAhead, retention(d.config))
	if err != nil {
		d.addDatabaseError(err)
		return
	}
	d.checkServer(found)
	d.checkDurability(found)
	d.checkConnections(found)
	d.checkClock(found)
	if d.checkSchema(found) {
		d.checkPartitions(found)
		d.checkKeys(ctx, url)
	}
	d.checkPooler(ctx)
}

// databaseURL returns the URL of PostgreSQL itself, "" if it is the private one and does not run.
func (d *doctor) databaseURL() (string, error) {
	if url := cmp.Or(d.config.Database.DirectURL, d.config.DatabaseURL); url != "" {
		return url, nil
	}
	return pgembed.Running(d.config.DataDir)
}

func (d *doctor) addDatabaseError(err error) {
	const check = "database"
	if reason, ok := pg.ReasonFor(err); ok {
		d.fail(check, reason.State, cmp.Or(reason.Change, "Wait, and run doctor again."))
		return
	}
	d.fail(check, pg.Explain(err).Error(), "Check host, port, database, user, password and sslmode in DATABASE_URL, pg_hba.conf of the server, and its log.")
}

func (d *doctor) checkServer(found pg.Diagnosis) {
	const check, oldest, major = "database version", 140000, 10000
	version := fmt.Sprintf("PostgreSQL %d.%d", found.Version/major, found.Version%major)
	if found.Version < oldest {
		d.fail(check, version+" is too old", "Upgrade to PostgreSQL 14 or newer.")
	} else {
		d.ok(check, "%s; the database has %.1f MB", version, float64(found.Bytes)/(1<<20))
	}
	if found.IsReplica {
		d.fail("database writes", "the server is a replica or read-only", "Point DATABASE_URL at the primary; a replica belongs into DATABASE_READ_URL.")
	}
	if found.Encoding != "UTF8" {
		d.fail("database encoding", "the encoding is "+found.Encoding, "Create the database with ENCODING 'UTF8'.")
	}
}

// checkDurability checks the settings on which the durability of accepted events and the work of
// autovacuum depend.
func (d *doctor) checkDurability(found pg.Diagnosis) {
	before := len(d.findings)
	for _, name := range []string{"fsync", "full_page_writes"} {
		if found.Settings[name] == "off" {
			d.fail("database settings", name+" is off: a crash of the server can lose or damage data", "Set "+name+" = on in postgresql.conf and reload it.")
		}
	}
	if found.Settings["synchronous_commit"] == "off" {
		d.warn("database settings", "synchronous_commit is off for this role: accepted events are durable, since the gateway sets it for them, but outcomes can be lost in a crash and work repeated",
			"ALTER ROLE … RESET synchronous_commit, or set it to on.")
	}
	for _, name := range []string{"autovacuum", "track_counts"} {
		if found.Settings[name] == "off" {
			d.fail("database settings", name+" is off: queues become slow within hours, and the disk fills", "Set "+name+" = on in postgresql.conf and reload it.")
		}
	}
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		if limit := found.Settings[name]; limit != "" && limit != "0" {
			d.warn("database settings", name+" is "+limit+" for this role", "ALTER ROLE … RESET "+name+": the gateway bounds its own statements, and a migration may take longer.")
		}
	}
	if len(d.findings) == before {
		d.ok("database settings", "fsync, full_page_writes, synchronous_commit, autovacuum and timeouts are as they should be")
	}
}

// checkConnections compares the pools of one instance with the limits of the server.
func (d *doctor) checkConnections(found pg.Diagnosis) {
	const check, others = "database connections", 2 // the listening connection, and a check
	c := d.config.Database
	wanted := c.AcceptConns + c.WorkConns + c.ListConns + others
	if d.config.Ingest.Log.IsOn() {
		wanted++ // the lock for copies of sources
	}
	limit, _ := strconv.Atoi(found.Settings["max_connections"])
	reserved, _ := strconv.Atoi(found.Settings["superuser_reserved_connections"])
	free := limit - reserved
	if found.UserConnections >= 0 {
		free = min(free, found.UserConnections)
	}
	text := fmt.Sprintf("an instance uses up to %d of %d connections; in use now: %d", wanted, free, found.Connections)
	change := "Raise max_connections (and the role's CONNECTION LIMIT), or lower database.accept_conns, work_conns and list_conns; count every instance, and one more during an upgrade."
	switch {
	case wanted > free:
		d.fail(check, text, change)
	case 2*wanted > free:
		d.warn(check, text+": a second instance, as in a rolling upgrade, does not fit", change)
	default:
		d.ok(check, "%s", text)
	}
}

func (d *doctor) checkClock(found pg.Diagnosis) {
	const check, tolerated, change = "clock", time.Second, "Synchronize the clocks of this machine and of the database server with NTP (chrony, systemd-timesyncd)."
	ahead, direction := found.ClockAhead.Round(time.Millisecond), "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	text := fmt.Sprintf("the database's clock is %s %s this machine's (measured within %s)", ahead.Abs(), direction, found.RoundTrip.Round(time.Millisecond/10))
	switch off := ahead.Abs() - found.RoundTrip; {
	case off > d.config.Lease()/2:
		d.fail(check, text, change)
	case off > tolerated:
		d.warn(check, text, change)
	default:
		d.ok(check, "%s", text)
	}
}

// checkSchema reports whether the schema is the program's own, so that its tables can be checked.
func (d *doctor) checkSchema(found pg.Diagnosis) bool {
	const check = "database schema"
	newest, err := migrations.Newest()
	switch {
	case err != nil:
		d.fail(check, err.Error(), "Install eventhook again.")
	case !found.HasSchema && !found.MayMigrate:
		d.fail(check, "the database is empty, and the role may not create the schema", "GRANT CREATE ON DATABASE … to the role of DATABASE_URL.")
	case !found.HasSchema:
		d.ok(check, "the database is empty; the first start of serve creates the schema")
	case found.IsDirty:
		d.fail(check, fmt.Sprintf("a migration to version %d is running, or stopped in the middle", found.Schema), "Run eventhook migrate.")
	case found.Schema > newest:
		d.fail(check, fmt.Sprintf("it has version %d, which is newer than version %d of this program", found.Schema, newest), "Use the newer eventhook.")
	case found.Schema < newest:
		d.warn(check, fmt.Sprintf("it has version %d; this program has version %d", found.Schema, newest), "Run eventhook migrate, or start serve, which migrates.")
	case len(found.Lacking) > 0:
		const most = 5
		list := strings.Join(found.Lacking[:min(len(found.Lacking), most)], ", ")
		d.fail("database privileges", fmt.Sprintf("the role lacks %d privileges: %s", len(found.Lacking), list),
			"Let one role own the schema eventhook and all its tables, and use this role in DATABASE_URL: ALTER SCHEMA eventhook OWNER TO …; REASSIGN OWNED BY … TO ….")
	default:
		d.ok(check, "version %d, which is this program's, and the role has every privilege", found.Schema)
		return true
	}
	return false
}

func (d *doctor) checkPartitions(found pg.Diagnosis) {
	const check = "partitions"
	before := len(d.findings)
	for _, p := range found.Partitions {
		if len(p.Missing) > 0 {
			d.warn(check, fmt.Sprintf("%s lacks the partitions %s", p.Table, strings.Join(p.Missing, ", ")),
				"Start an instance with the role dispatch, which creates partitions every 10 minutes; its log names the cause if it cannot.")
		}
		if p.HasDefault {
			d.warn(check, "the default partition of "+p.Table+" has rows: a partition was missing, or a clock was wrong",
				"Start an instance with the role dispatch, which moves the rows; check the clocks.")
		}
		if len(p.Expired) > 0 {
			d.warn(check, fmt.Sprintf("%d partitions of %s are past their retention, the oldest is %s", len(p.Expired), p.Table, p.Expired[0]),
				"They hold open work or replayed deliveries, which the log names, or no instance with the role dispatch runs.")
		}
	}
	if len(d.findings) == before {
		d.ok(check, "the partitions of the next days exist, and no old one is left")
	}
}

// checkKeys checks the encryption keys with the canary of the database, and counts the values
// that older keys sealed.
func (d *doctor) checkKeys(ctx context.Context, url string) {
	const check = "encryption keys"
	c := d.config
	if err := readGeneratedKeys(&c.AdminKey, &c.EncryptionKeys, c.DataDir); err != nil {
		d.skip(check, "no key was generated yet; the first start generates one")
		return
	}
	k, err := openKeys(c)
	if err != nil {
		d.fail(check, err.Error(), "Create a key with openssl rand -base64 32.")
		return
	}
	c.Database.AcceptConns, c.Database.WorkConns, c.Database.ListConns = 1, 2, 1
	db, err := openWithoutMigration(ctx, c, &database{url: url}, k, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fail(check, err.Error(), "Check DATABASE_URL.")
		return
	}
	defer db.Close()
	if err := db.ReadSealing(ctx); err != nil {
		d.fail(check, message(err), "Check the role of DATABASE_URL, and the log of PostgreSQL.")
		return
	}
	if err := db.KeysFit(); err != nil {
		d.fail(check, "they do not open the canary of this database, which other keys sealed",
			"Set EVENTHOOK_ENCRYPTION_KEYS to the keys that the other instances have; docs/secrets.md says what to do if a key is lost.")
		return
	}
	const countTime = checkTime / 3
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	counts, err := db.CountSealed(counting)
	if err != nil && counting.Err() != nil && ctx.Err() == nil {
		d.skip("stored secrets", "they are too many to count in %s; eventhook secrets status counts them", countTime.Round(time.Second))
		return
	}
	if err != nil {
		d.warn(check, "the stored secrets could not be counted: "+err.Error(), "Run eventhook secrets status.")
		return
	}
	d.addSealed(sealing{k.ring.KeyIDs(), counts})
}

func (d *doctor) addSealed(s sealing) {
	const check = "encryption keys"
	lost, old := 0, 0
	for _, id := range s.unknown() {
		lost += s.total(id)
	}
	for _, id := range s.ids[1:] {
		old += s.total(id)
	}
	switch {
	case lost > 0:
		d.fail(check, fmt.Sprintf("%d stored secrets are sealed with keys that are not configured", lost),
			"Add the missing key to EVENTHOOK_ENCRYPTION_KEYS; eventhook secrets status lists the keys.")
	case old > 0:
		d.warn(check, fmt.Sprintf("%d keys open the canary; %d stored secrets are sealed with an older key", len(s.ids), old), "Run eventhook secrets rotate.")
	case len(s.ids) > 1:
		d.warn(check, fmt.Sprintf("%d keys are configured, and only the newest is needed", len(s.ids)), "Remove the older keys when every instance has the newest.")
	default:
		d.ok(check, "the key opens the canary, and it sealed every stored secret")
	}
}

// readGeneratedKeys reads the keys that the private PostgreSQL's first start generated, if they
// are not configured. It generates none.
func readGeneratedKeys(admin *string, encryption *[]string, dataDir string) error {
	if len(*encryption) == 0 {
		raw, err := os.ReadFile(filepath.Join(dataDir, "encryption.key"))
		if err != nil {
			return err
		}
		*encryption = strings.Fields(string(raw))
	}
	if *admin == "" {
		*admin = "not needed and not used" // so that openKeys generates none
	}
	if len(*encryption) == 0 {
		return fs.ErrNotExist
	}
	return nil
}

// checkPooler checks which of the URLs are connection poolers in transaction mode.
func (d *doctor) checkPooler(ctx context.Context) {
	const check = "connection pooler"
	c := d.config
	switch {
	case c.DatabaseURL == "":
	case c.Database.DirectURL != "" && pg.IsPooler(ctx, c.Database.DirectURL):
		d.fail(check, "DATABASE_DIRECT_URL is a pooler in transaction mode", "Set DATABASE_DIRECT_URL to PostgreSQL itself.")
	case c.Database.DirectURL == "" && pg.IsPooler(ctx, c.DatabaseURL):
		d.fail(check, "DATABASE_URL is a pooler in transaction mode", "Set DATABASE_DIRECT_URL to PostgreSQL itself, or DATABASE_URL.")
	case c.Database.DirectURL != "":
		if _, err := pg.Diagnose(ctx, c.DatabaseURL, d.now, partitionsAhead, retention(c)); err != nil && !errors.Is(err, context.Canceled) {
			d.fail(check, "DATABASE_URL cannot be used: "+err.Error(), "Check the pooler and its databases.")
			return
		}
		d.ok(check, "DATABASE_URL answers, and DATABASE_DIRECT_URL is PostgreSQL itself")
	}
}
