package main

import "github.com/eventhook/eventhook/bench/measure"

func (r *run) reportLog(rounds []logRound) {
	r.reportHead()
	r.print("%-38s", "into PostgreSQL")
	r.reportMeasured(medianMeasured(rounds, func(l logRound) measurement { return l.direct }))
	rows := []struct {
		name string
		get  func(logRound) logged
	}{
		{"into the log, stored meanwhile", func(l logRound) logged { return l.beside }},
		{"into the log, stored afterwards", func(l logRound) logged { return l.alone }},
		{"into a log with sync_interval: always", func(l logRound) logged { return l.synced }},
	}
	for _, row := range rows {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, func(l logRound) measurement { return row.get(l).measurement }))
	}
	r.print("\n%-38s %12s %12s %12s %12s %12s\n", "medians", "over direct", "stored/s", "waiting", "drained/s", "NATS's CPU")
	for _, row := range rows {
		median := func(get func(logged) float64) float64 {
			return measure.Median(rounds, func(l logRound) float64 { return get(row.get(l)) })
		}
		r.print("%-38s %12.2f %12.0f %12.0f %12.0f %10.0fµs\n", row.name,
			measure.Median(rounds, func(l logRound) float64 { return row.get(l).perSec / l.direct.perSec }),
			median(func(l logged) float64 { return l.stored }), median(func(l logged) float64 { return float64(l.waiting) }),
			median(func(l logged) float64 { return l.drained }), median(func(l logged) float64 { return l.logCPU }))
	}
	r.print("Each accepted event is in PostgreSQL once.\n")
}
