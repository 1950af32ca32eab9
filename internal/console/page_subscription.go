package console

var subscriptionPages []page
