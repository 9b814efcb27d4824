module github.com/sluicegate/sluice

go 1.26
