package console

var deliveryPages []page
