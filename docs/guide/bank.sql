CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER CHECK (balance >= 0));
CREATE TABLE transfer (
  source TEXT REFERENCES account, target TEXT REFERENCES account,
  amount INTEGER CHECK (amount > 0));
INSERT INTO account VALUES ('alice', 100), ('bob', 0);
