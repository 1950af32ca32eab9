package script

import "modernc.org/quickjs"

// clockSource sets the clock of a program to the timestamp of its event, and seeds the
// random numbers with the id of the event. The generator is mulberry32.
const clockSource = `((RealDate) => event => {
	const now = RealDate.parse(event.timestamp) || 0
	const Fixed = new Proxy(RealDate, {
		construct: (target, args, to) => Reflect.construct(target, args.length ? args : [now], to === Fixed ? target : to),
		apply: target => new target(now).toString(),
		get: (target, name) => name === "now" ? () => now : target[name],
	})
	RealDate.prototype.constructor = Fixed
	globalThis.Date = Fixed
	let state = 0
	for (const c of String(event.event_id)) state = Math.imul(state ^ c.charCodeAt(0), 0x01000193) >>> 0
	Math.random = () => {
		state = (state + 0x6D2B79F5) >>> 0
		let t = Math.imul(state ^ (state >>> 15), state | 1)
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296
	}
})(Date)`

// fixClock makes the program independent of the time and of chance.
func (r *run) fixClock(event quickjs.Value) error {
	fix, err := r.hold(r.vm.EvalValue(clockSource, quickjs.EvalGlobal))
	if err != nil {
		return err
	}
	_, err = r.hold(fix.CallValue(quickjs.UndefinedValue, event))
	return err
}
