class Base:
    def check(self):
        return self.size

    size: int = 1


class Args(Base):
    other = 2


_hidden = 1
made = Args()
