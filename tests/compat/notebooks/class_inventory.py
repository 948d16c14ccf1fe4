# %%
class Account:
    bank = "B1"
    opened = 0
    def __init__(self, owner, balance=0):
        self.owner, self._balance = owner, balance
        Account.opened += 1
        self.log = []
    @property
    def balance(self):
        return self._balance
    @balance.setter
    def balance(self, v):
        if v < 0:
            raise ValueError("negative")
        self.log.append((self._balance, v))
        self._balance = v
    @classmethod
    def of(cls, text):
        name, amount = text.split(":")
        return cls(name, int(amount))
    @staticmethod
    def fee(x):
        return x * 0.01
    def __repr__(self):
        return f"Account({self.owner!r}, {self._balance})"
a = Account("ann", 5)
b = Account.of("bob:9")
Account.opened
# %%
a.balance += 10
a, a.log
# %%
a.balance = -1
# %%
a.balance, Account.opened, Account.fee(200)
# %%
class Savings(Account):
    rate = 0.1
    def grow(self):
        self.balance = self.balance * (1 + self.rate)
        return super().__repr__()
s = Savings("cid", 100)
s.grow()
# %%
Savings.rate = 0.5
Account.bank = "B2"
s.grow(), a.bank, isinstance(s, Account), Account.opened
# %%
people = {p.owner: p for p in (a, b, s)}
people["ann"].balance = 99
a.balance, [p for p in people.values()], s.rate
