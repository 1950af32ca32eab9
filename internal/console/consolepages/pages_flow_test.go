package consolepages_test

import "github.com/eventhook/eventhook/internal/browsertest"

// samplePayment is a request's body that a person pastes.
const samplePayment = `{"type": "payment_intent.succeeded", "livemode": false,
 "data": {"object": {"id": "pi_1", "amount": 4200, "currency": "eur"}}}`

func (s *scene) sources(at string) []shown {
	source, github := at+"/"+s.source, at+"/new?provider=github"
	return []shown{
		{name: "sources", path: at},
		{name: "source-choose", path: at + "/new"},
		{name: "source-new", path: github, template: "source_new"},
		{name: "source-new-broker", path: at + "/new?consume=kafka", template: "source_new", hasNoImage: true},
		{name: "source-secret", path: github, template: "source_secret", steps: func(p *browsertest.Page) {
			p.Fill("#f-slug", "releases")
			p.ClickName("Generate the secret and create")
			p.WaitVisible("#secret")
		}},
		{name: "source", path: source},
		{name: "source-waiting", path: at + "/" + s.waiting + "/waiting"},
		{name: "source-refused", path: at + "/" + s.refused + "/rejections"},
		{name: "source-test-form", path: source + "/test", hasNoImage: true},
		{name: "source-test", path: source + "/test", steps: func(p *browsertest.Page) {
			p.Fill("#f-body", samplePayment)
			p.Click("main form.card button.primary")
			p.WaitText("main section .card h2", "would be")
		}},
		{name: "source-settings", path: source + "/settings"},
	}
}

func (s *scene) routes(at string) []shown {
	return []shown{
		{name: "routes", path: at},
		{name: "route-new", path: at + "/new"},
		{name: "route-new-broker", path: at + "/new", hasNoImage: true, steps: func(p *browsertest.Page) {
			p.Choose("#add-type", "nats")
			p.ClickName("Add a target")
			p.WaitText("fieldset + fieldset legend", "nats")
			p.Choose("#add-type", "workflow on Temporal")
			p.ClickName("Add a target")
			p.WaitText("fieldset + fieldset + fieldset legend", "workflow on Temporal")
		}},
		{name: "route", path: at + "/" + s.route, steps: func(p *browsertest.Page) {
			p.ClickName("Backtest the last 1 000 events")
			p.WaitText("#backtest", "Would have matched")
		}},
		{name: "route-of-a-reader", path: at + "/" + s.route, template: "route", scopes: []string{"read"}},
		{name: "route-changes", path: at + "/" + s.route, steps: func(p *browsertest.Page) {
			p.Fill("#f-priority", "20")
			p.ClickName("Review changes")
			p.WaitText("h1", "Changes of")
		}},
	}
}

func (s *scene) subscriptions(at string) []shown {
	replay := at + "/" + s.failing + "/replay"
	return []shown{
		{name: "subscriptions", path: at},
		{name: "subscription", path: at + "/" + s.subscription},
		{name: "subscription-failing", path: at + "/" + s.failing},
		{name: "subscription-new", path: at + "/new"},
		{name: "subscription-edit", path: at + "/" + s.subscription + "/edit"},
		{name: "replay", path: replay},
		{name: "replay-estimate", path: replay, steps: func(p *browsertest.Page) {
			p.ClickName("Estimate…")
			p.WaitText("main .card h2", "Replay")
		}},
		{name: "subscriptions-pause", path: at, steps: func(p *browsertest.Page) {
			p.ClickName("Change all that match")
			p.ClickName("Pause…")
			p.WaitText("h1", "Pause subscriptions")
		}},
	}
}

func (s *scene) deliveries(at string) []shown {
	return []shown{
		{name: "deliveries", path: at},
		{name: "delivery", path: at + "/" + s.delivery},
		{name: "dead-letters", path: at + "/dead"},
		{name: "dead-letters-retry", path: at + "/dead", steps: func(p *browsertest.Page) {
			p.Click(`form[action$="/deliveries/retry"] button`)
			p.WaitText("main .card h2", "Retry")
		}},
	}
}
