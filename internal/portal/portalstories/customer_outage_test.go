package portalstories_test

import (
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func (c *customer) sendsAFailedDeliveryAgain() {
	c.receiver.AnswerText(500, "cannot reach the database "+attack)
	c.publish()
	c.receives()
	c.endpoint()
	c.WaitText("#delivery-rows", "500 Internal Server Error")
	c.ClickName("Failed")
	c.WaitURL("?status=dead")
	c.ClickName("invoice.paid")
	c.WaitText("#delivery .heading", "failed")
	c.WaitText("#delivery .timeline pre", "cannot reach the database "+attack)
	c.Unharmed()
	c.receiver.Answer(200)
	c.ClickName("Send again")
	gatewaytest.Confirm(c.Page, "Send this delivery to Orders again?")
	c.receives()
	c.WaitText("#delivery .heading", "delivered")
	if n := c.Count("#delivery .timeline > li"); n != 2 {
		c.t.Errorf("the page shows %d attempts, want 2", n)
	}
}

func (c *customer) replaysAnOutage() {
	c.receiver.Answer(503)
	for range 2 {
		c.publish()
		c.receives()
	}
	c.endpoint()
	c.WaitText("#delivery-rows", "503 Service Unavailable")
	c.receiver.Answer(200)
	c.ClickName("Replay…")
	c.WaitText("h1", "Replay deliveries")
	c.ClickName("Estimate…")
	c.WaitText("main", "Replay 2 deliveries to Orders, oldest first")
	c.ClickName("Start the replay")
	c.WaitText(".notice.ok", "The replay has started: 2 events")
	c.receiver.Next()
	c.receives() // the oldest first
	c.WaitText("#status", "completed")
}

func (c *customer) recovers() {
	c.receiver.Answer(503)
	for range 3 {
		c.publish()
		c.receives()
	}
	c.endpoint()
	c.WaitText("#state", "stopped")
	c.WaitText("#status", "3 deliveries were missed")
	c.receiver.Answer(200)
	c.ClickName("Recover")
	gatewaytest.Confirm(c.Page, "As soon as it answers, the deliveries that it missed are sent.")
	for range 3 {
		c.receiver.Next()
	}
	c.WaitText("#state", "active")
	c.WaitGone("#status .notice")
}
